"""From a model and rows to parameters: objective, optimisers, starts, schedules over rows, checkpoints, processes."""
