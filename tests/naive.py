"""The paper, transcribed loop by loop: slow, and only here to be compared with."""

import numpy as np


def kernel_matrix(X, kind, sigma=None, degree=2, coef0=1.0):
    n = len(X)
    K = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            inner = sum(X[i, t] * X[j, t] for t in range(X.shape[1]))
            squared = sum((X[i, t] - X[j, t]) ** 2 for t in range(X.shape[1]))
            K[i, j] = {
                "linear": inner,
                "polynomial": (inner + coef0) ** degree,
                "gaussian": np.exp(-squared / (2 * sigma**2)) if sigma else 0.0,
            }[kind]
    return K


def laplacian(X, sigma):
    W = kernel_matrix(X, "gaussian", sigma=sigma)
    D = np.zeros_like(W)
    for i in range(len(W)):
        D[i, i] = sum(W[i, j] for j in range(len(W)))
    return D - W


def loss(K, L, P, G, G_star, lam, theta):
    """q of one view, entry by entry."""
    R = np.eye(len(K)) - P @ G  # Phi - Phi P G = Phi R
    n = len(K)
    reconstruction = sum(R[i, t] * K[i, j] * R[j, t] for t in range(n) for i in range(n) for j in range(n))
    consensus = sum((G[r, i] - G_star[r, i]) ** 2 for r in range(len(G)) for i in range(n))
    smoothness = sum(G[r, i] * L[i, j] * G[r, j] for r in range(len(G)) for i in range(n) for j in range(n))
    return reconstruction + lam * consensus + theta * smoothness


def weights(q, gamma):
    v = len(q)
    if gamma == 0:
        return np.full(v, 1 / v)
    if gamma == 1:
        beta = np.zeros(v)
        beta[int(np.argmin(q))] = 1.0
        return beta
    powers = [q[a] ** (1 / (1 - gamma)) for a in range(v)]
    return np.array([p / sum(powers) for p in powers])


def algorithm_1(Ks, Ls, start, lam, theta, gamma, n_iter):
    """Algorithm 1; `start` is n x k. Returns the consensus, weights and objectives."""
    v = len(Ks)
    G = [start.T.copy() for _ in range(v)]
    G_star = start.T.copy()
    beta = np.full(v, 1 / v)
    objectives = []
    for _ in range(n_iter):
        P = [G[a].T @ np.linalg.inv(G[a] @ G[a].T) for a in range(v)]  # Eq. 5
        for a in range(v):  # Eq. 6
            A = P[a].T @ Ks[a] @ P[a]
            gradient = 2 * (A @ G[a] - P[a].T @ Ks[a] + lam * (G[a] - G_star) + theta * G[a] @ Ls[a])
            lipschitz = 2 * (np.linalg.norm(A, 2) + lam + theta * np.linalg.norm(Ls[a], 2))
            G[a] = np.maximum(G[a] - gradient / lipschitz, 0)
        top = sum(beta[a] ** gamma * lam * G[a] for a in range(v))  # Eq. 7
        G_star = top / sum(beta[a] ** gamma * lam for a in range(v))
        q = [loss(Ks[a], Ls[a], P[a], G[a], G_star, lam, theta) for a in range(v)]
        beta = weights(q, gamma)  # Eq. 8
        objectives.append(sum(beta[a] ** gamma * q[a] for a in range(v)))
    return G_star.T, beta, objectives
