"""Kernels: compute the operator of the samples of a view, and its rows for new samples."""

from viewloom.kernels.diffusion import Diffusion
from viewloom.kernels.linear import Cosine, Linear
from viewloom.kernels.nystroem import Nystroem
from viewloom.kernels.pairwise import FunctionKernel, Gaussian, PairwiseKernel, Polynomial, Precomputed
from viewloom.kernels.registry import KERNELS, make_kernel

__all__ = [
    "KERNELS",
    "Cosine",
    "Diffusion",
    "FunctionKernel",
    "Gaussian",
    "Linear",
    "Nystroem",
    "PairwiseKernel",
    "Polynomial",
    "Precomputed",
    "make_kernel",
]
