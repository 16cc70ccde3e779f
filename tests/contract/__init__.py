"""Every pair of choices that a user can make works, or is refused by name."""
