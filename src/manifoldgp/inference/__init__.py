"""What data say about a model: evidence, posteriors exact and sparse, mixtures, the ensemble that predicts."""
