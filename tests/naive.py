"""The paper, transcribed loop by loop: slow, and only here to be compared with."""

import numpy as np
from sklearn.covariance import ledoit_wolf_shrinkage


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


def neighbour_graph(X, count):
    """Nearest-neighbour graph with self-tuning weights, normalised on both sides."""
    n = len(X)
    D = np.array([[np.sqrt(sum((X[i] - X[j]) ** 2)) for j in range(n)] for i in range(n)])
    near = [sorted((j for j in range(n) if j != i), key=lambda j: D[i, j])[:count] for i in range(n)]
    last = [D[i, near[i][-1]] for i in range(n)]
    scale = [max(s, 0.1 * np.median(last)) for s in last]
    W = np.zeros((n, n))
    for i in range(n):
        for j in near[i]:
            nearer = sum(D[i, other] < D[i, j] for other in near[i])
            weight = (1 - nearer / len(near[i])) * np.exp(-(D[i, j] ** 2) / (scale[i] * scale[j]))
            W[i, j] += weight / 2
            W[j, i] += weight / 2
    return normalised(W), scale, W.sum(axis=1)


def neighbour_edges(x, X, count, scale, degrees):
    """Edges of one new sample to the training samples, normalised on both sides."""
    D = [np.sqrt(sum((x - y) ** 2)) for y in X]
    near = sorted(range(len(X)), key=lambda j: D[j])[:count]
    w = np.zeros(len(X))
    for j in near:
        nearer = sum(D[other] < D[j] for other in near)
        w[j] = (1 - nearer / len(near)) * np.exp(-(D[j] ** 2) / (max(D[near[-1]], min(scale)) * scale[j]))
    return np.array([w[j] / np.sqrt(sum(w) * degrees[j]) for j in range(len(X))])


def normalised(W):
    d = [sum(row) for row in W]
    return np.array([[W[i, j] / np.sqrt(d[i] * d[j]) for j in range(len(W))] for i in range(len(W))])


def unit(Z):
    return np.array([z / np.sqrt(sum(z**2)) for z in Z])


def walk(W, rank, time, directions):
    """Diffusion features Z, and what continues them to new nodes."""
    values, U = np.linalg.eigh(normalised(W))
    values, U = values[::-1][:rank], U[:, ::-1][:, :rank]
    left = [min(max((1 + v) / 2, 0), 1) for v in values]
    while sum(v**time for v in left) > directions and time < 300:
        time *= 1.2
    Z = np.array([[U[i, r] * left[r] ** (time / 2) for r in range(rank)] for i in range(len(U))])
    onward = [left[r] ** (time / 2) / values[r] if values[r] > 0.05 else 0.0 for r in range(rank)]
    return unit(Z), U * np.array(onward)


def agreement(Za, Zb, k):
    """How much of what k clusters could explain of a view another view explains."""
    A, B = Za - Za.mean(axis=0), Zb - Zb.mean(axis=0)
    directions = np.linalg.svd(B, full_matrices=False)[0][:, : k - 1]
    total = sum(a @ a for a in A)
    chance = total * (k - 1) / (len(A) - 1)
    explained = sum((directions[:, r] @ A[:, c]) ** 2 for r in range(k - 1) for c in range(A.shape[1]))
    a = [s**2 for s in np.linalg.svd(A)[1]]
    m, r, span = len(A) - 1, k - 1, sum(a[: k - 1]) - chance
    variance = 2 * r * (m - r) / (m**2 * (m - 1) * (m + 2)) * (m * sum(s**2 for s in a) - sum(a) ** 2)
    return max(explained - chance, 0) / span, np.sqrt(variance) / span


def mutual(Za, Zb, k):
    """Mean of both directions: agreement, and its standard deviation under chance."""
    return [(one + other) / 2 for one, other in zip(agreement(Za, Zb, k), agreement(Zb, Za, k), strict=True)]


def overlap(S, T):
    """Cosine between two graphs over the same samples."""
    n = len(S)
    pairs = [(i, j) for i in range(n) for j in range(n)]
    inner = sum(S[p] * T[p] for p in pairs)
    return inner / np.sqrt(sum(S[p] ** 2 for p in pairs) * sum(T[p] ** 2 for p in pairs))


def view_reliability(E, null, C, rounds=30):
    """Weights and gates."""
    v = len(E)
    w = [1 / v] * v
    for _ in range(rounds):
        g = []
        for a in range(v):
            A = [w[b] * max(1 - C[a][b], 0) if b != a else 0 for b in range(v)]
            e = sum(A[b] * E[a][b] for b in range(v)) / sum(A) if sum(A) > 1e-6 else 1.0
            chance = sum(A[b] * null[a][b] for b in range(v)) / sum(A) if sum(A) > 1e-6 else 0.0
            g.append(e**4 / (e**4 + max(3 * chance, 0.01) ** 4))
        m = [sum(c**32 for c in C[a]) for a in range(v)]  # copies of a view
        raw = [max(g[a], 1e-4) / (m[a] * sum(C[a][b] / m[b] for b in range(v))) for a in range(v)]
        w = [r / sum(raw) for r in raw]
    return w, g


def resemblance(X, Y, labels):
    """Root of the correlation of similarities in two views, means of pairs of clusters subtracted."""
    n = len(labels)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    left = []
    for V in (X - X.mean(axis=0), Y - Y.mean(axis=0)):
        kinds = {}
        for i, j in pairs:
            kinds.setdefault((labels[i], labels[j]), []).append(V[i] @ V[j])
        left.append([V[i] @ V[j] - np.mean(kinds[labels[i], labels[j]]) for i, j in pairs])
    one, other = map(np.array, left)
    r = one @ other / np.sqrt((one @ one) * (other @ other))
    return np.sqrt(max(r - n**-0.5, 0) / (1 - n**-0.5))


def votes(blocks, rows, labels, g):
    """Gates divided by the number of copies and by the sum of all resemblances, copies counted once."""
    v = len(blocks)
    R = np.eye(v)
    for a in range(v):
        for b in range(v):
            both = np.intersect1d(rows[a], rows[b])
            if a != b:
                one = blocks[a][np.searchsorted(rows[a], both)]
                other = blocks[b][np.searchsorted(rows[b], both)]
                R[a, b] = resemblance(one, other, labels[both])
    m = [sum(R[a][b] ** 32 for b in range(v)) for a in range(v)]
    kept = [0.75 + 0.25 / sum(R[a][b] / m[b] for b in range(v)) for a in range(v)]
    return [max(g[a], 0.05) * kept[a] / m[a] for a in range(v)]


def decorrelated(X):
    """Centred features, directions of more than the mean of the shrunk variances reduced to it."""
    s = ledoit_wolf_shrinkage(X - X.mean(axis=0), assume_centered=True)
    S = np.cov(X.T, bias=True)
    m = np.trace(S) / len(S)
    values, V = np.linalg.eigh((1 - s) * S + s * m * np.eye(len(S)))
    return (X - X.mean(axis=0)) @ V @ np.diag([min(1.0, np.sqrt(m / value)) for value in values]) @ V.T


def side_by_side(blocks, rows, n, weights):
    """Views decorrelated, of mean squared length one, times root weight; stretched where one is absent."""
    parts, seen = [], np.zeros(n)
    for X, where, w in zip(blocks, rows, weights, strict=True):
        centred = decorrelated(X)
        length = np.mean([x @ x for x in centred])
        part = np.zeros((n, X.shape[1]))
        for x, i in zip(centred, where, strict=True):
            part[i] = x * np.sqrt(w / length)
            seen[i] += w
        parts.append(part)
    side = np.hstack(parts)
    return np.array([side[i] / np.sqrt(seen[i]) for i in range(n)])


def combined_graph(graphs, rows, n, weights, fused):
    """``M = 0.6 sum_a w_a S_a + 0.4 S_fused``, before it is normalised."""
    M = 0.4 * fused
    for S, where, w in zip(graphs, rows, weights, strict=True):
        for i, p in enumerate(where):
            for j, q in enumerate(where):
                M[p, q] += 0.6 * w * S[i, j]
    return M


def explained_range(K, k):
    """Least error of k clusters and how far that of one lies above it, from the centred kernel."""
    n = len(K)
    H = np.eye(n) - np.ones((n, n)) / n
    values = sorted(np.linalg.eigvalsh(H @ K @ H), reverse=True)
    best = sum(values[: k - 1])
    return sum(values) - best, best
