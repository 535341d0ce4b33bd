"""What fuzzing begins with: small files of the layouts that the readers are for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from fuzzing.targets import ADNI, CUT, DIALECTS, LONG, NAMES, TABLE

LINES = 7
TOML = b"""[study]
name = "A"
[participants]
path = "participants.csv"
id = "participant_id"
diagnosis = "dx"
covariates = ["age", "sex"]
site = "site"
outcomes = "mmse"
survival = { time = "t", event = "e" }
[views.vbm]
path = 'vbm.csv'
format = "table"
id = "participant_id"
columns = ["L*"]
missing_codes = { "L*" = [-4], x = ["NA"] }
transform = "log1p"
[views."f d g"]
paths = ["vbm.csv", "participants.csv"]
name = ["region", "side"]
value = "suvr"
format = "long"
id = "participant_id"
[views.mri]
path = "subjects"
measures = ["thickness"]
[views.snp]
path = "genotypes/snps.bed"
min_maf = 0.01
[preparation]
residualise = ["age"]
controls = ["CN", 0]
harmonise = "combat"
[model]
n_clusters = 3
kernel = { vbm = "linear", mri = "gaussian", snp = "cosine", "f d g" = "linear" }
lam = 1e1
[ids]
match = "adni"
[report]
min_cell = 5
"""
UCSF = b"""RID,VISCODE,VISCODE2,IMAGEUID,RUNDATE,OVERALLQC,ST29SV,ST88SV,ST24TA,ST24SA,ST10CV
2,sc,sc,11,2010-05-01,Pass,3100,3600,3.25,400,1500000
2,bl,scmri,10,2012-05-01,Pass,3200,,3.1,401,1500001
5,v03,bl,20,2012-05-01,Partial,3300,3500,2.5,402,1500002
""" + CUT + b'FLDNAME,TEXT\nST29SV,"Volume (WM Parcellation) of LeftHippocampus"\nST24TA,\n'  # fmt: skip
MERGE = b"""RID,PTID,VISCODE,DX_bl,DX,DXCHANGE,D1,D2,AGE,Years_bl,PTGENDER,ABETA,MMSE,ST29SV_UCSFFSX,EXAMDATE
2,011_S_0002,bl,CN,NL,1,1,0,74.3,0,Male,>1700,28,3100,2005-09-08
3,011_S_0003,bl,AD,MCI to Dementia,5,1,1,81.3,,Female,741.5,20,-4,2005-09-12
3,011_S_0003,m06,AD,Dementia,3,1,1,81.3,0.5,Female,<200,24,2900,2006-03-13
"""
FDG = b"""RID,VISCODE,VISCODE2,ROINAME,ROILAT,MEAN
2,bl,bl,Angular,Left,1.2
2,bl,bl,Angular,Right,1.3
4,m12,bl,Temporal,,1.1
"""
ASEG = b"""# Title Segmentation Statistics
# Measure EstimatedTotalIntraCranialVol, eTIV, Estimated Total Intracranial Volume, 1500000.25, mm^3
# ColHeaders  Index SegId NVoxels Volume_mm3 StructName normMean
  1   4   3500   3500.5  Left-Hippocampus   60.1
  2   5   7000   7000.5  Left-Thalamus-Proper   61.1
"""
APARC = b"""# Measure Cortex, MeanThickness, Mean Thickness, 2.40000, mm
# ColHeaders StructName NumVert SurfArea GrayVol ThickAvg ThickStd MeanCurv GausCurv FoldInd CurvInd
entorhinal   1200   800  1800  3.250 0.512     0.116     0.025  13  1.3
precuneus    1200   800  9000  2.500 0.512     0.116     0.025  13  1.3
"""
FAM = b"F1 01 0 0 1 -9\nF1 02 0 0 2 1\nF2 03 0 0 0 2\nF3 04 0 0 1 0\nF4 05 0 0 1 0\n"
BIM = b"1\trs1\t0\t100\tA\tG\n19\t.\t0\t200\tC\tT\n"
BED = b"\x6c\x1b\x01" + bytes([0b11100100, 0b00000000, 0b10111111, 0b00000011])
RAW = b"FID IID PAT MAT SEX PHENOTYPE rs1_A rs1_HET rs2_C(/T)\nF1 01 0 0 1 -9 2 0 NA\nF1 02 0 0 2 1 1.5 1 0\n"


def tables() -> list[bytes]:
    """Heads of the tables of the example study, and tables as spreadsheets write them."""
    from viewloom.study import write_example

    with tempfile.TemporaryDirectory() as folder:
        paths = [path for path in write_example(folder) if path.suffix in (".csv", ".tsv")]
        heads = [b"\n".join(path.read_bytes().split(b"\n")[:LINES]) for path in paths]
    narrow = [b"\n".join(b",".join(line.split(b",")[:6]) for line in head.split(b"\n")) for head in heads]
    return [
        *narrow,
        b"id;a;b\n007;3,1;-9\n008;2,5;x\n",
        b'"id","visit","a"\r\n"1","bl","1.5"\r\n"1","m12",""\r\n',
        "id\té\t脳\ns1\t1\t2\n".encode("utf-16"),
        b"a,b\nr1,1,2\nr2,3,4\n",
        b"sep=;\nid;a\n1;2\n",
        b"id,a,a\n1,2,3\n",
        b"id a b\n1 2  3\n4 5 6\n",
        b"id,d\n2010-01-01,1\n1-Mar,2\n",
    ]


def models(**beside: object) -> Iterator[bytes]:
    """Small models of several kinds."""
    import viewloom as vl

    rng = np.random.default_rng(0)
    X = {"a": rng.standard_normal((9, 2)), "b": rng.standard_normal((9, 1))}
    gaps = {"a": np.where(np.arange(9)[:, None] < 2, np.nan, X["a"]), "b": X["b"]}
    kinds = [
        {"kernel": "gaussian"},
        {"kernel": "linear"},
        {"kernel": "diffusion"},
        {"factored": True, "kernel": "linear"},
    ]
    for settings, views in zip(kinds, [X, gaps, X, X], strict=True):
        yield saved(vl.KernelMultiviewNMF(2, random_state=0, **settings).fit(views), **beside)


def saved(model: object, **beside: object) -> bytes:
    """A model as the bytes of its file."""
    from viewloom.models import persistence

    with tempfile.TemporaryDirectory() as folder:
        persistence.save(model, Path(folder, "m.safetensors"), **beside)  # type: ignore[arg-type]
        return Path(folder, "m.safetensors").read_bytes()


def run_models() -> Iterator[bytes]:
    """Models with their preparation, as `viewloom fit` saves them."""
    from viewloom import Views
    from viewloom.study.preparation.fitted import Plan, Preparation

    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {"age": rng.normal(70, 5, 30), "sex": ["M", "F"] * 15, "site": ["x"] * 15 + ["y"] * 15}
    )
    views = Views({name: rng.standard_normal((30, 2)) for name in ("a", "b")}, allow_nan=True)
    plans = [
        Plan(),
        Plan(impute="knn", residualise=["age", "sex"], residualise_on="all", harmonise="combat", site="site"),
        Plan(genotypes=["c"], standardise=True),
    ]
    for plan in plans:
        if plan.genotypes:
            views = Views({"c": rng.integers(0, 3, (30, 3)).astype(float)}, allow_nan=True)
        ready = Preparation.fit(views, people, plan)
        extra = {"preparation": ready.settings(), "limits": dict.fromkeys(views.names, 1.0)}
        yield from list(models(extra=extra, arrays=ready.to_arrays()))[:2]


def summaries() -> Iterator[bytes]:
    """The summary of a small run."""
    from viewloom.study import read_study
    from viewloom.study.run import run_study

    rng = np.random.default_rng(0)
    ids = [f"s{i:02d}" for i in range(40)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for view in ("a", "b"):
            X = rng.standard_normal((40, 3)) + 4.0 * (np.arange(40) % 2)[:, None]
            pd.DataFrame(X, index=pd.Index(ids, name="id")).add_prefix("f").to_csv(folder / f"{view}.csv")
        views = "".join(f"[views.{view}]\npath = '{view}.csv'\nid = 'id'\n" for view in ("a", "b"))
        (folder / "study.toml").write_text(f"{views}[model]\nn_clusters = 2\n", encoding="utf-8")
        run_study(read_study(folder / "study.toml"), folder / "run")
        yield (folder / "run" / "summary.json").read_bytes()


def parquets() -> Iterator[bytes]:
    """Tables as Parquet."""
    frame = pd.DataFrame({"participant_id": ["1", "2"], "a": [1.5, None], "b": [1, 2], "c": ["x", "y"]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.parquet")
        for table in (
            frame,
            frame.set_index("participant_id"),
            frame.assign(d=pd.to_datetime(["2020-01-01"] * 2)),
        ):
            table.to_parquet(path, compression=None)
            yield b"\1" + path.read_bytes()
            table.iloc[:, :2].to_parquet(path)
            yield b"\0" + path.read_bytes()


def matrices(kind: str) -> Iterator[bytes]:
    """An AnnData or MuData file; none where the library is not installed."""
    try:
        import anndata
        import mudata
    except ImportError:
        return
    X = np.array([[1.0, 0.0], [0.5, np.nan]])
    anndata.settings.allow_write_nullable_strings = True
    data = anndata.AnnData(X, obs=pd.DataFrame(index=["1", "2"]), var=pd.DataFrame(index=["g", "h"]))
    data.layers["log"] = X
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t")
        for number, kept in enumerate((data, _sparse(data))):
            kept.write_h5ad(path) if kind == "h5ad" else mudata.MuData({"rna": kept}).write(path)
            yield bytes([number]) + path.read_bytes()


def _sparse(data: Any) -> Any:
    """The same with sparse matrices and a column of kinds."""
    data = data.copy()
    data.X, data.layers["log"] = sp.csr_matrix(data.X), sp.csc_matrix(data.layers["log"])
    data.obs["kind"] = pd.Categorical(["a", "b"])
    return data


def _with_options(contents: list[bytes], options: list) -> Iterator[bytes]:
    """Every content with plain options, and the first with each of the others."""
    plain = [content for content in contents if content]
    yield from (b"\0" + content for content in plain)
    yield from (
        bytes([at]) + plain[at % len(plain)]
        for at in range(len(options) - len(DIALECTS) - 30, len(options))
        if at > 0
    )


def _adni() -> Iterator[bytes]:
    by_format = {"ucsffsx": UCSF, "adnimerge": MERGE, "tadpole": MERGE, "fdg": FDG}
    return (bytes([at]) + by_format[format] for at, (format, _) in enumerate(ADNI))


def _looked_at() -> Iterator[bytes]:
    texts = [*tables(), UCSF, MERGE, FDG, RAW, ASEG]
    yield from (b"\0" + text for text in texts)
    yield from (bytes([at]) + text for at, text in zip(range(len(NAMES)), texts * 2, strict=False))
    yield from (bytes([NAMES.index("t.parquet")]) + content[1:] for content in parquets())


def _stats_tables() -> Iterator[bytes]:
    aseg = b"Measure:volume\tLeft-Hippocampus\teTIV\ns1\t3500.5\t1500000\ns2/\t3400.5\t1500001\n"
    left = b"lh.aparc.thickness\tlh_entorhinal_thickness\teTIV\ns1\t3.2\t1500000\ns3\t3.1\t1500002\n"
    yield from (bytes([at]) + aseg + CUT + left for at in range(3))
    yield b"\0" + left


SEEDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "load": models,
    "study": lambda: iter([TOML, *(b"[" + block for block in TOML.split(b"\n[")[3:])]),
    "table": lambda: _with_options(tables(), TABLE),
    "long": lambda: _with_options([FDG, *tables()], LONG),
    "predict": run_models,
    "adni": _adni,
    "freesurfer-table": _stats_tables,
    "plink-raw": lambda: iter([b"\0" + RAW, b"\1" + RAW, b"\2" + RAW.replace(b" ", b"\t")]),
    "plink": lambda: (bytes([at]) + CUT.join([FAM, BIM, BED]) for at in range(3)),
    "freesurfer": lambda: (bytes([at]) + CUT.join([ASEG, APARC, ASEG, APARC]) for at in range(4)),
    "look": _looked_at,
    "parquet": parquets,
    "report": summaries,
    "h5ad": lambda: matrices("h5ad"),
    "h5mu": lambda: matrices("h5mu"),
}
