"""What the store is asked, by what it is about; every function reads in a given session."""
