"""What chance explains of scores and of intervals, where rows may err together; NumPy alone, so that commands start soon."""
