"""Features M: H = M(X), the first half of F = G ∘ M (eq. 9). The kernel only ever sees H.

Every class is a description without state; see :class:`Features` for the contract.
"""

from manifoldgp.features.autoencoder import AutoEncoder, Guided, Pretrained
from manifoldgp.features.circle import Circle
from manifoldgp.features.composition import Chain, Concatenate, Residual
from manifoldgp.features.convert import as_features
from manifoldgp.features.feature_map import Features, Pullback
from manifoldgp.features.kumaraswamy import Kumaraswamy
from manifoldgp.features.layers import ACTIVATIONS
from manifoldgp.features.module import Module
from manifoldgp.features.nested import Nested
from manifoldgp.features.network import MLP
from manifoldgp.features.projections import FixedLinear, Identity, Linear
from manifoldgp.features.transformer import Transformer
from manifoldgp.features.unsupervised import PCA, RandomEmbedding
from manifoldgp.predictor.rows import Rows

__all__ = [
    "ACTIVATIONS",
    "MLP",
    "PCA",
    "AutoEncoder",
    "Chain",
    "Circle",
    "Concatenate",
    "Features",
    "FixedLinear",
    "Guided",
    "Identity",
    "Kumaraswamy",
    "Linear",
    "Module",
    "Nested",
    "Pretrained",
    "Pullback",
    "RandomEmbedding",
    "Residual",
    "Rows",
    "Transformer",
    "as_features",
]
