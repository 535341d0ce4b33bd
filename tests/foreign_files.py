"""Small files in the layout of other programs and studies, for the tests of readers."""

import json
from itertools import product

import numpy as np
import pandas as pd

REGIONS = ("BANKSSTS", "CUNEUS", "ENTORHINAL", "PRECUNEUS")


def berkeley(rids, *, kind="amyloid", visits=("bl",), tracers=("FBP",), seed=0):
    """A table of amyloid (AMY_6MM) or tau (TAU_6MM) PET of ADNI; SUVR are relative to the cerebellum."""
    rng = np.random.default_rng(seed)
    rows = [
        _scan(rng, rid, visit, tracers[i % len(tracers)], kind)
        for (i, rid), visit in product(enumerate(rids), visits)
    ]
    return pd.DataFrame(rows)


def _scan(rng, rid, visit, tracer, kind):
    month = 0 if visit == "bl" else int(visit[1:])
    row = {
        "LONIUID": f"I{rng.integers(1e6)}", "RID": rid, "PTID": f"011_S_{rid:04d}", "VISCODE": visit,
        "VISCODE2": visit, "SITEID": 11, "SCANDATE": f"{2012 + month // 12}-03-{1 + rid % 28:02d}",
        "PROCESSDATE": "2023-11-01", "IMAGE_RESOLUTION": "6MM", "qc_flag": 2, "TRACER": tracer,
    }  # fmt: skip
    if kind == "amyloid":
        row |= {"AMYLOID_STATUS": int(rng.random() < 0.5), "CENTILOIDS": int(rng.normal(40, 40))}
        row |= {"SUMMARY_SUVR": rng.normal(1.2, 0.2), "SUMMARY_VOLUME": 150000}
        row |= {"AMYLOID_STATUS_COMPOSITE_REF": 1, "COMPOSITE_REF_SUVR": rng.normal(1.3, 0.05)}
        row |= {"WHOLECEREBELLUM_SUVR": 1.0, "WHOLECEREBELLUM_VOLUME": 120000}
    else:
        row |= {"META_TEMPORAL_SUVR": rng.normal(1.2, 0.2), "BRAAK1_SUVR": rng.normal(1.2, 0.2)}
        row |= {"INFERIORCEREBELLUM_SUVR": 1.0, "INFERIORCEREBELLUM_VOLUME": 60000}
    row |= {"ERODED_SUBCORTICALWM_SUVR": rng.normal(1.5, 0.1), "BRAINSTEM_SUVR": 1.4, "CSF_SUVR": 0.7}
    for region in REGIONS:
        row[f"CTX_{region}_SUVR"] = rng.normal(1.2, 0.2)
        for side in ("LH", "RH"):
            row[f"CTX_{side}_{region}_SUVR"] = rng.normal(1.2, 0.2)
            row[f"CTX_{side}_{region}_VOLUME"] = int(rng.normal(3000, 200))
    row |= {"CTX_LH_UNKNOWN_SUVR": 0.9, "LEFT_AMYGDALA_SUVR": rng.normal(1.1, 0.1)}
    row |= {"LEFT_CEREBELLUM_CORTEX_SUVR": 1.0, "LEFT_LATERAL_VENTRICLE_SUVR": 0.6}
    return row | {"update_stamp": "2023-12-01 00:00:00.0"}


def ukb_name(style, field, instance, array=None):
    """The name of a column of UK Biobank in one of its spellings."""
    if style == "rap":
        return (
            f"p{field}"
            + ("" if instance is None else f"_i{instance}")
            + ("" if array is None else f"_a{array}")
        )
    numbers = (field, instance or 0, array or 0)
    return {"csv": "{}-{}.{}", "r": "f.{}.{}.{}", "stata": "n_{}_{}_{}"}[style].format(*numbers)


def ukb(ids, style="rap", seed=0):
    """A table of UK Biobank: two imaging fields at two instances, an array, a field without instances."""
    rng = np.random.default_rng(seed)
    n = len(ids)
    eid = {"rap": "eid", "csv": "eid", "r": "f.eid", "stata": "n_eid"}[style]
    frame = {eid: ids, ukb_name(style, 31, None): rng.integers(0, 2, n)}
    for field, instance in product((25005, 25010, 25019), (2, 3)):
        frame[ukb_name(style, field, instance)] = rng.normal(100, 10, n).round(3)
    for array in (0, 1):
        frame[ukb_name(style, 102, 2, array)] = rng.integers(50, 90, n)
    frame[ukb_name(style, 53, 2)] = ["2015-03-01"] * n
    return pd.DataFrame(frame)


def oasis(ids, days=(129, 757), seed=0):
    """FreeSurfer volumes of OASIS-3, one row per session."""
    rng = np.random.default_rng(seed)
    pairs = list(product(ids, days))
    frame = pd.DataFrame(
        {
            "FS_FSDATA ID": [f"{id}_Freesurfer53_d{day:04d}" for id, day in pairs],
            "Session": [f"{id}_MR_d{day:04d}" for id, day in pairs],
            "Subject": [id for id, _ in pairs],
            "version": "freesurfer-Linux-centos4_x86_64-stable-v5.3.0",
        }
    )
    for name in ("IntraCranialVol", "lhCortexVol", "Left-Hippocampus_volume"):
        frame[name] = rng.normal(1000, 50, len(pairs)).round(2)
    return frame


def bids(folder, ids, seed=0):
    """A BIDS dataset: participants, a questionnaire and sessions of each subject, with sidecars."""
    rng = np.random.default_rng(seed)
    n = len(ids)
    (folder / "phenotype").mkdir(parents=True)
    people = {
        "participant_id": ids,
        "age": rng.normal(70, 5, n).round(1),
        "sex": rng.permutation(np.resize([1, 2], n)),
    }
    people["group"] = rng.permutation(np.resize(["CN", "AD"], n))
    pd.DataFrame(people).to_csv(folder / "participants.tsv", sep="\t", index=False, na_rep="n/a")
    sidecar = {
        "age": {"Description": "Age at the first session", "Units": "years"},
        "sex": {"LongName": "Sex", "Levels": {"1": "male", "2": "female"}},
        "group": {"Levels": {"CN": "cognitively normal", "AD": {"Description": "Alzheimer's disease"}}},
    }
    (folder / "participants.json").write_text(json.dumps(sidecar), encoding="utf-8")
    items = {f"item{j}": rng.integers(0, 4, n) for j in range(4)}
    items["item0"][0] = -9
    table = pd.DataFrame({"participant_id": ids, **items})
    table.to_csv(folder / "phenotype" / "npi.tsv", sep="\t", index=False)
    known = {"0": "never", "1": "rarely", "2": "often", "3": "always", "-9": "missing"}
    sidecar = {
        "MeasurementToolMetadata": {"Description": "NPI"},
        **{name: {"Levels": known} for name in items},
    }
    (folder / "phenotype" / "npi.json").write_text(json.dumps(sidecar), encoding="utf-8")
    for id in ids:
        (folder / id).mkdir()
        rows = {
            "session_id": ["ses-M000", "ses-M012"],
            "mmse": rng.integers(20, 30, 2),
            "weight": rng.normal(70, 5, 2),
        }
        pd.DataFrame(rows).to_csv(folder / id / f"{id}_sessions.tsv", sep="\t", index=False)
    return folder


def caps(folder, ids, sessions=("M000",), atlases=("AAL2", "LPBA40"), seed=0):
    """Statistics of t1-volume and pet-volume of clinica."""
    rng = np.random.default_rng(seed)
    for id, session in product(ids, sessions):
        name = f"{id}_ses-{session}"
        home = folder / "subjects" / id / f"ses-{session}"
        for atlas in atlases:
            t1 = home / "t1/spm/dartel/group-ADNIbl/atlas_statistics"
            _statistics(t1 / f"{name}_T1w_space-{atlas}_map-graymatter_statistics.tsv", rng)
            pet = home / "pet/preprocessing/group-ADNIbl/atlas_statistics"
            _statistics(pet / f"{name}_trc-18FFDG_pet_space-{atlas}_suvr-pons_statistics.tsv", rng)
    return folder


def _statistics(path, rng):
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ["Background", "Precentral_L", "Precentral_R", "Hippocampus_L"]
    frame = pd.DataFrame({"label_name": names, "mean_scalar": rng.normal(0.5, 0.1, len(names))})
    frame.to_csv(path, sep="\t", index=True)


def merged(ids, sessions=("ses-M000",), seed=0):
    """A table of clinica's merge-tsv."""
    rng = np.random.default_rng(seed)
    rows = [
        {"participant_id": id, "session_id": session, "age": 70, "sex": "F"}
        for id, session in product(ids, sessions)
    ]
    frame = pd.DataFrame(rows)
    for pipeline, atlas, more in (("t1-volume", "AAL2", ""), ("pet-volume", "AAL2", "_trc-18FFDG")):
        for region in ("Background", "Precentral_L", "Precentral_R", "Vermis_1_2"):
            name = f"{pipeline}_group-ADNIbl_atlas-{atlas}{more}_ROI-{region}_intensity"
            frame[name] = rng.normal(0.5, 0.1, len(frame))
    return frame


def muse(ids, prefix="", seed=0):
    """Volumes of MUSE regions: single and derived ones."""
    rng = np.random.default_rng(seed)
    single = [4, 11, 23, 30, 31, 32, 47, 48, 51, 52, 55, 56, 57, 58, 59, 60, 100, 101, 102, 103]
    numbers = [*single, 301, 509, 604, 701, 702]
    values = {f"{prefix}{number}": rng.normal(3000, 300, len(ids)).round(2) for number in numbers}
    return pd.DataFrame({"MRID": ids, **values})


def cat12(folder, names, atlases=("neuromorphometrics", "hammers"), seed=0):
    """Regional values and reports of CAT12."""
    rng = np.random.default_rng(seed)
    (folder / "label").mkdir(parents=True, exist_ok=True)
    (folder / "report").mkdir(exist_ok=True)
    for name in names:
        inner = "".join(_cat12_atlas(atlas, rng) for atlas in atlases)
        text = f'<?xml version="1.0" encoding="utf-8"?>\n<S>\n{inner}</S>\n'
        (folder / "label" / f"catROI_{name}.xml").write_text(text, encoding="utf-8")
        csf, gm, wm = rng.normal([300, 650, 550], 30)
        report = (
            f"<S>\n   <qualityratings>\n      <IQR>{rng.uniform(1.5, 3):.6f}</IQR>\n   </qualityratings>\n"
            f"   <subjectmeasures>\n      <vol_abs_CGW>[{csf:.6f} {gm:.6f} {wm:.6f} 0]</vol_abs_CGW>\n"
            f"      <vol_TIV>{csf + gm + wm:.6f}</vol_TIV>\n   </subjectmeasures>\n"
            "   <subjectratings>\n      <vol_TIV>1.05</vol_TIV>\n   </subjectratings>\n</S>\n"
        )
        (folder / "report" / f"cat_{name}.xml").write_text(report, encoding="utf-8")
    return folder


def _cat12_atlas(atlas, rng):
    names = ["lHip", "rHip", "lAmy", "rAmy", "lLatVen"]
    items = "".join(f"         <item>{name}</item>\n" for name in names)
    rows = {
        key: ";".join(f"{value:.12g}" for value in rng.normal(3, 0.3, len(names)))
        for key in ("Vcsf", "Vgm", "Vwm")
    }
    data = "".join(f"         <{key}>[{row}]</{key}>\n" for key, row in rows.items())
    return (
        f"   <{atlas}>\n      <ids>[1;2;3;4;5]</ids>\n      <names>\n{items}      </names>\n"
        f"      <version>1233</version>\n      <data>\n{data}      </data>\n   </{atlas}>\n"
    )


def nifti(folder, names, shape=(6, 7, 8), seed=0):
    """Maps, and an atlas of three regions with its table; needs nibabel."""
    import nibabel

    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    affine[:3, 3] = [-6, -7, -8]
    labels = np.zeros(shape, dtype=np.int16)
    labels[:3, :, :4], labels[3:, :, :4], labels[:, :, 5:] = 1, 2, 40
    nibabel.save(nibabel.Nifti1Image(labels, affine), folder / "atlas-toy_dseg.nii.gz")
    (folder / "atlas-toy_dseg.tsv").write_text("index\tname\n1\tleft\n2\tright\n40\ttop\n99\tnowhere\n")
    for name in names:
        values = rng.random(shape).astype(np.float32) + labels / 20
        nibabel.save(nibabel.Nifti1Image(values, affine), folder / f"{name}.nii.gz")
    return folder
