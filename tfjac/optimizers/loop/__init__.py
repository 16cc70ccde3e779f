"""One Levenberg-Marquardt step, its scaling and its bounds."""
