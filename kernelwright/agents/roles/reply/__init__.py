"""What a model writes: the records of a reply, in the terms of a task, and what makes two alike."""
