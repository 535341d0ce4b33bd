"""What fuzzing begins with: small files of the layouts that the readers are for."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from fuzzing.targets import ADNI, CODES, CUT, DIALECTS, LONG, MATRIX, NAMES, TABLE

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
MATRICES = b"""Geneid,Chr,S1,S2,S3
ENSG00000130203,19,5,7,1
ENSG00000136717,2,0,3,x
__no_feature,,100,200,300
"""
GCT = b"#1.2\n2\t2\nName\tDescription\tS1\tS2\n1007_s_at\tna\t1.5\t2.5\n1053_at\tna\t0.5\t3\n"
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
PSAM = b"#FID\tIID\tSEX\n1\ta\t1\n1\tb\t2\n2\tc\t1\n3\td\tNA\n4\te\t0\n"
PVAR = b"##x\n#CHROM\tPOS\tID\tREF\tALT\tINFO\n1\t100\trs1\tA\tG\tR2=0.9\n19\t200\t.\tC\tT,G\tPR\n"
PGENS = [
    bytes.fromhex(text)
    for text in (
        "6c1b100200000005000000401700000000000000000202e4001000",
        "6c1b10020000000500000044180000000000000060600505ec00020020d000080050",
    )
]
VCF = (
    b'##fileformat=VCFv4.2\n##contig=<ID=1>\n##INFO=<ID=R2,Number=1,Type=Float,Description="x">\n'
    b'##FORMAT=<ID=GT,Number=1,Type=String,Description="x">\n'
    b'##FORMAT=<ID=DS,Number=A,Type=Float,Description="x">\n'
    b"#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\ta\tb\tc\n"
    b"1\t100\trs1\tA\tG\t.\t.\tR2=0.9\tGT:DS\t0/1:1.1\t1|1:1.9\t./.:.\n1\t200\t.\tC\tT,G\t.\t.\t.\tGT\t0\t0/2\t.\n"
)
WEIGHTS = b"###PGS CATALOG\n#pgs_id=PGS1\nrsID\teffect_allele\teffect_weight\nrs1\tA\t0.5\n"


def bgens() -> Iterator[bytes]:
    """One variant of two subjects: plain, compressed, and of the first layout."""
    names = b"".join(len(name).to_bytes(2, "little") + name for name in (b"v1", b"rs1", b"1"))
    alleles = b"".join(len(name).to_bytes(4, "little") + name for name in (b"A", b"G"))
    where, two = (100).to_bytes(4, "little"), (2).to_bytes(2, "little")
    calls = bytes([2, 0, 0, 0, 2, 0, 2, 2, 2, 130, 0, 8, 10, 20, 0, 0])
    ids = bytes([14, 0, 0, 0, 2, 0, 0, 0, 1, 0]) + b"a" + bytes([1, 0]) + b"b"
    for flags, block in ((8, calls), (9, len(calls).to_bytes(4, "little") + zlib.compress(calls))):
        head = (20 + 14).to_bytes(4, "little") + bytes([20, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]) + b"bgen"
        body = names + where + two + alleles + len(block).to_bytes(4, "little") + block
        yield head + (flags | 1 << 31).to_bytes(4, "little") + ids + body


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


def feathers() -> Iterator[bytes]:
    """Tables as Feather."""
    frame = pd.DataFrame({"participant_id": ["1", "2"], "a": [1.5, None], "b": [1, 2], "c": ["x", "y"]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.feather")
        frame.to_feather(path, compression="uncompressed")
        yield b"\1" + path.read_bytes()
        frame.iloc[:, :3].to_feather(path)
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


def cell_files(end: str) -> Iterator[bytes]:
    """Small files of spreadsheets, statistical programs and R; none where the library is not installed."""
    try:
        yield from _cell_files(end)
    except ImportError:
        return


def _cell_files(end: str) -> Iterator[bytes]:
    """The same with each of the options."""
    import pyreadstat

    frame = pd.DataFrame({"id": ["a", "b", "c"], "a": [1.5, np.nan, 3.0], "sex": [1.0, 2.0, 1.0]})
    labels: Any = {"variable_value_labels": {"sex": {1: "M", 2: "F"}}}
    writers: dict[str, Callable[[Path], object]] = {
        ".xlsx": lambda path: _workbook(frame, path),
        ".xls": lambda path: _old_workbook(frame, path),
        ".ods": lambda path: frame.to_excel(path, index=False, engine="odf"),
        ".sav": lambda path: pyreadstat.write_sav(frame, path, missing_ranges={"a": [3]}, **labels),
        ".zsav": lambda path: pyreadstat.write_sav(frame, path, compress=True, **labels),
        ".por": lambda path: pyreadstat.write_por(frame, path),
        ".dta": lambda path: pyreadstat.write_dta(frame, path, **labels),
        ".xpt": lambda path: pyreadstat.write_xport(frame, path),
        ".rds": lambda path: _r(path, frame),
        ".RData": lambda path: _r(path, frame),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"t{end}")
        writers[end](path)
        yield from (bytes([at]) + path.read_bytes() for at in range(4))


def _workbook(frame: pd.DataFrame, path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    cells = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    for row in [["a title"], list(frame.columns), *cells]:
        book.active.append(row)
    book.active["C4"] = "#DIV/0!"
    book.active.merge_cells("A1:C1")
    book.save(path)


def _old_workbook(frame: pd.DataFrame, path: Path) -> None:
    import xlwt

    book = xlwt.Workbook()
    sheet = book.add_sheet("one")
    for i, row in enumerate([list(frame.columns), *frame.fillna(0).to_numpy().tolist()]):
        for j, cell in enumerate(row):
            sheet.write(i, j, cell)
    book.save(str(path))


def _r(path: Path, frame: pd.DataFrame) -> None:
    import rdata

    plain = frame.astype({"id": pd.StringDtype("python")}).assign(sex=pd.Categorical(["M", "F", "M"]))
    if path.suffix == ".rds":
        rdata.write_rds(path, plain, compression=None)
    else:
        rdata.write_rda(path, {"one": plain, "two": plain}, compression=None)


def packed_files() -> Iterator[bytes]:
    """Compressed tables, and a zip file with one."""
    import bz2
    import gzip
    import io
    import lzma
    import zipfile

    text, archive = b"id,a\n1,2.5\n2,3.5\n", io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("t.csv", text)
    contents = [gzip.compress(text), bz2.compress(text), lzma.compress(text), archive.getvalue()]
    return (bytes([at]) + content for at, content in enumerate(contents))


CONDITIONS = [
    b"a > 1", b"`b c` == 'x' and not a in [1, 2.5]", b"d >= '2010-06-01' or a is missing", b"(1 <= a < 5)",
    b"`b c` not in ['x', \"y\"] or a == id",
]  # fmt: skip


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


PET = (
    b"RID,VISCODE,VISCODE2,SCANDATE,qc_flag,TRACER,AMYLOID_STATUS,CENTILOIDS,SUMMARY_SUVR,COMPOSITE_REF_SUVR,"
    b"WHOLECEREBELLUM_SUVR,CTX_LH_CUNEUS_SUVR,CTX_LH_CUNEUS_VOLUME,LEFT_AMYGDALA_SUVR\n"
    b"2,bl,bl,2012-03-01,2,FBP,1,44,1.4,1.3,1,1.25,3000,1.5\n"
    b"3,m24,m24,2014-03-01,1,FBP,0,-4,1.0,1.2,1,1.05,2900,-4\n"
)
UKB = (
    b"eid,p31,p25005_i2,p25005_i3,p102_i2_a0,p102_i2_a1,p53_i2\n1,0,6.5,6.4,60,62,2015-01-02\n2,1,7,,70,,\n"
    + CUT
    + b"FieldID,Field,ValueType\n25005,Grey matter,Continuous\n31,Sex,Categorical single\n"
)
OASIS = b"FS_FSDATA ID,Subject,a,b\nOAS30001_FS_d0129,OAS30001,1,2\nOAS30001_FS_d0757,OAS30001,3,4\n"
MUSE = (
    b"MRID,MUSE_Volume_47,MUSE_Volume_48,MUSE_Volume_702\na,1,2,3\nb,4,5,6\n"
    + CUT
    + b"ID,Name\n47,Hippocampus\n"
)
MERGED = (
    b"participant_id\tsession_id\tt1-volume_group-x_atlas-AAL2_ROI-a_intensity\n"
    b"sub-1\tses-M000\t0.5\nsub-2\tses-M000\t0.6\n"
)
BIDS_FILES = CUT.join(
    [
        b"participant_id\tage\tsex\nsub-1\t70\t1\nsub-2\t71\t2\n",
        b'{"sex": {"Levels": {"1": "m", "2": {"Description": "f"}, "-9": "missing"}}, "age": {"Units": "y"}}',
        b"session_id\tmmse\tage\nses-M000\t28\t70\nses-M012\t27\t71\n",
    ]
)
STATISTICS = b"\tlabel_name\tmean_scalar\n0\tBackground\t0\n1\ta\t0.5\n2\tb\t0.25\n"
ROIS = (
    b"<S><hammers><ids>[1;2]</ids><names><item>lHip</item><item>rHip</item></names><data><Vgm>[1.5;NaN]</Vgm>"
    b"<Vwm>[1;2]</Vwm></data></hammers></S>"
)
REPORT = (
    b"<S><qualityratings><IQR>2.1</IQR></qualityratings><subjectmeasures><vol_abs_CGW>[1 2 3 0]</vol_abs_CGW>"
    b"<vol_TIV>6</vol_TIV></subjectmeasures></S>"
)


def _cat12() -> Iterator[bytes]:
    """Files of CAT12 of both kinds."""
    from scipy.io import savemat

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "b.mat")
        data = {"Vgm": np.array([[1.5], [2.5]])}
        atlas = {"names": np.array([["lHip"], ["rHip"]], dtype=object), "data": data}
        for packed in (False, True):
            savemat(path, {"S": {"hammers": atlas}}, do_compression=packed)
            yield from (bytes([at]) + CUT.join([ROIS, path.read_bytes(), REPORT]) for at in range(3))


def _maps() -> Iterator[bytes]:
    """A map and an atlas; none where nibabel is not installed."""
    try:
        import nibabel
    except ImportError:
        return
    labels = (np.arange(8).reshape(2, 2, 2) // 4 + 1).astype(np.uint8)
    images = [nibabel.Nifti1Image(values, np.eye(4)) for values in (labels.astype(np.float32), labels)]
    table = b"index\tname\n1\ta\n2\tb\n"
    yield from (bytes([at]) + CUT.join([*(image.to_bytes() for image in images), table]) for at in range(3))


def _looked_at() -> Iterator[bytes]:
    texts = [
        *tables(),
        UCSF,
        MERGE,
        FDG,
        RAW,
        ASEG,
        PET,
        UKB.split(CUT)[0],
        OASIS,
        MERGED,
        MUSE.split(CUT)[0],
    ]
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
    "matrix": lambda: _with_options([MATRICES, GCT, *tables()], MATRIX),
    "codes": lambda: _with_options([b"eid,icd10\n1,I10\n1,E11\n2,\n", *tables()], CODES),
    "predict": run_models,
    "adni": _adni,
    "freesurfer-table": _stats_tables,
    "plink-raw": lambda: iter([b"\0" + RAW, b"\1" + RAW, b"\2" + RAW.replace(b" ", b"\t")]),
    "pgen": lambda: (
        bytes([at]) + CUT.join([PSAM, PVAR.replace(b",G", b""), PGENS[at % 2]]) for at in range(4)
    ),
    "bgen": lambda: (bytes([at]) + content for at in range(5) for content in bgens()),
    "vcf": lambda: (bytes([at]) + VCF for at in range(6)),
    "scores": lambda: iter([WEIGHTS, b"rs1 A 0.5\n", b"SNP,A1,BETA\nrs1,G,1\n"]),
    "plink": lambda: (bytes([at]) + CUT.join([FAM, BIM, BED]) for at in range(3)),
    "freesurfer": lambda: (bytes([at]) + CUT.join([ASEG, APARC, ASEG, APARC]) for at in range(4)),
    "adni-pet": lambda: (bytes([at]) + PET for at in range(6)),
    "ukb": lambda: (bytes([at]) + UKB for at in range(8)),
    "oasis3": lambda: (bytes([at]) + OASIS for at in range(4)),
    "muse": lambda: (bytes([at]) + MUSE for at in range(4)),
    "clinica-merge": lambda: (bytes([at]) + MERGED for at in range(3)),
    "bids": lambda: (bytes([at]) + BIDS_FILES for at in range(4)),
    "caps": lambda: (bytes([at]) + CUT.join([STATISTICS, STATISTICS]) for at in range(3)),
    "cat12": _cat12,
    "cat12-report": lambda: (bytes([at]) + REPORT for at in range(2)),
    "nifti": _maps,
    "look": _looked_at,
    "parquet": parquets,
    "feather": feathers,
    "xlsx": lambda: cell_files(".xlsx"),
    "xls": lambda: cell_files(".xls"),
    "ods": lambda: cell_files(".ods"),
    "sav": lambda: cell_files(".sav"),
    "zsav": lambda: cell_files(".zsav"),
    "por": lambda: cell_files(".por"),
    "dta": lambda: cell_files(".dta"),
    "sas7bdat": lambda: iter([]),  # only SAS writes them: put some into the corpus of the working folder
    "xpt": lambda: cell_files(".xpt"),
    "rds": lambda: cell_files(".rds"),
    "rdata": lambda: cell_files(".RData"),
    "packed": packed_files,
    "rows": lambda: iter(CONDITIONS),
    "report": summaries,
    "h5ad": lambda: matrices("h5ad"),
    "h5mu": lambda: matrices("h5mu"),
}
