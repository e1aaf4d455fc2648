"""Running values along rows and along columns."""
