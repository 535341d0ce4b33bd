"""NIfTI maps with a label atlas: values, grids, orientation, cache, refusals."""

import foreign_files as foreign
import numpy as np
import pytest
from noted import texts
from numpy.testing import assert_allclose, assert_array_equal

from viewloom.study.errors import StudyError
from viewloom.study.readers import images, sniff
from viewloom.study.readers.atlases import Grid, atlas_of, labels_of
from viewloom.study.readers.images import read_maps

nibabel = pytest.importorskip("nibabel")
IDS = ["sub-01", "sub-02", "sub-03", "sub-04"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return foreign.nifti(tmp_path / "maps", IDS)


@pytest.fixture
def atlas(folder):
    return {"atlas_image": folder / "atlas-toy_dseg.nii.gz", "atlas_labels": folder / "atlas-toy_dseg.tsv"}


def loaded(path):
    return nibabel.load(path).get_fdata()


def rewritten(path, change):
    """Save the values and affine of an image after a change."""
    image = nibabel.load(path)
    values, affine = change(image.get_fdata().copy(), image.affine.copy())
    nibabel.save(nibabel.Nifti1Image(values, affine), path)


@pytest.mark.parametrize(("statistic", "naive"), [("mean", np.mean), ("median", np.median), ("sum", np.sum)])
def test_values_agree_with_a_naive_loop(folder, atlas, statistic, naive):
    assert sniff(folder) == "nifti"
    frame = read_maps(folder, statistic=statistic, files="sub-*", **atlas)
    labels = loaded(folder / "atlas-toy_dseg.nii.gz")
    scale = 8 / 1000 if statistic == "sum" else 1  # voxels of 8 mm^3, in ml
    for id in IDS:
        values = loaded(folder / f"{id}.nii.gz")
        assert_allclose(frame.loc[id], [scale * naive(values[labels == number]) for number in (1, 2, 40)])
    assert frame.columns.tolist() == ["left", "right", "top"]


@pytest.mark.filterwarnings("ignore")
def test_values_agree_with_nilearn(folder, atlas):
    maskers = pytest.importorskip("nilearn.maskers")
    masker = maskers.NiftiLabelsMasker(
        str(atlas["atlas_image"]), strategy="mean", resampling_target=None, standardize=None
    )
    own = [masker.fit_transform(str(folder / f"{id}.nii.gz")).ravel() for id in IDS]
    assert_allclose(read_maps(folder, **atlas), own, rtol=1e-6)


def test_the_order_of_axes_does_not_matter(folder, atlas):
    before = read_maps(folder, **atlas)

    def flipped(values, affine):
        turned = affine.copy()
        turned[:3, 0], turned[:3, 3] = -affine[:3, 0], affine[:3, 3] + affine[:3, 0] * (len(values) - 1)
        swap = turned[:, [1, 0, 2, 3]]
        return np.swapaxes(values[::-1], 0, 1), swap

    rewritten(folder / "sub-02.nii.gz", flipped)
    assert_allclose(read_maps(folder, **atlas), before)


def test_another_grid_is_refused_or_resampled(folder, atlas):
    rewritten(
        folder / "sub-02.nii.gz",
        lambda values, affine: (np.repeat(values, 2, axis=0), affine @ np.diag([0.5, 1, 1, 1])),
    )
    with pytest.raises(StudyError, match="maps: 1 of 4 maps cannot be read: one has another grid") as caught:
        read_maps(folder, **atlas)
    assert "sub-02" not in str(caught.value)
    frame = read_maps(folder, resample=True, **atlas)
    assert "1 of 4 maps on another grid: labels of the nearest voxels" in texts(frame.attrs["notes"])
    image = pytest.importorskip("nilearn.image")
    new = image.resample_to_img(
        str(atlas["atlas_image"]),
        str(folder / "sub-02.nii.gz"),
        interpolation="nearest",
        force_resample=True,
        copy_header=True,
    )
    values, labels = loaded(folder / "sub-02.nii.gz"), new.get_fdata()
    assert_allclose(
        frame.loc["sub-02"], [values[labels == number].mean() for number in (1, 2, 40)], rtol=0.02
    )


def test_nearest_labels_of_a_shifted_grid(atlas):
    known = atlas_of(atlas["atlas_image"], None)
    shifted = known.grid.affine.copy()
    shifted[:3, 3] += [2, 0, -2]  # one voxel
    found = known.on(Grid(known.labels.shape, shifted))
    assert_array_equal(found[:-1, :, 1:], known.labels[1:, :, :-1])
    assert not found[-1].any()


def test_voxels_that_are_not_finite_do_not_count(folder, atlas):
    labels = loaded(atlas["atlas_image"])
    values = loaded(folder / "sub-01.nii.gz")
    values[:1] = np.nan  # a third of region left
    values[labels == 40] = np.nan
    rewritten(folder / "sub-01.nii.gz", lambda _, affine: (values, affine))
    frame = read_maps(folder, **atlas)
    assert_allclose(frame.loc["sub-01", "left"], np.nanmean(values[labels == 1]))
    assert np.isnan(frame.loc["sub-01", "top"])


def test_a_region_that_is_mostly_not_covered_is_missing(folder, atlas):
    labels = loaded(atlas["atlas_image"])
    values = loaded(folder / "sub-01.nii.gz")
    left = np.argwhere(labels == 1)
    values[tuple(left[: 1 + len(left) // 2].T)] = np.nan
    rewritten(folder / "sub-01.nii.gz", lambda _, affine: (values, affine))
    assert read_maps(folder, **atlas).isna().loc["sub-01"].tolist() == [True, False, False]


def test_cached_values_are_those_of_the_content(folder, atlas, monkeypatch, tmp_path):
    first = read_maps(folder, **atlas)
    cached = list((tmp_path / "cache").rglob("*.npy"))
    assert len(cached) == 4
    assert all(path.stat().st_mode & 0o077 == 0 for path in cached)
    assert not any(id in path.name for path in cached for id in IDS)
    monkeypatch.setattr(images, "load_image", lambda path: pytest.fail("a map was read again"))
    assert_array_equal(read_maps(folder, **atlas), first)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rewritten(folder / "sub-03.nii.gz", lambda values, affine: (values + 1, affine))
    assert_allclose(read_maps(folder, **atlas).loc["sub-03"], first.loc["sub-03"] + 1, rtol=1e-6)
    cached[0].write_bytes(b"damaged")
    assert read_maps(folder, **atlas).notna().all(axis=None)


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b"\0" * 400, b"hello"])
def test_damaged_maps_are_counted(folder, atlas, content):
    (folder / "sub-02.nii.gz").write_bytes(content)
    with pytest.raises(StudyError, match="1 of 4 maps cannot be read") as caught:
        read_maps(folder, **atlas)
    assert "\n" not in str(caught.value)
    assert "sub-02" not in str(caught.value)


def test_a_truncated_map(folder, atlas):
    content = (folder / "sub-02.nii.gz").read_bytes()
    (folder / "sub-02.nii.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(StudyError, match="1 of 4 maps cannot be read: one cannot be read as NIfTI"):
        read_maps(folder, **atlas)


def test_maps_without_orientation_and_series_are_refused(folder, atlas):
    values = np.zeros((6, 7, 8), dtype=np.float32)
    image = nibabel.Nifti1Image(values, np.eye(4))
    image.set_sform(None, code=0)
    image.set_qform(None, code=0)
    nibabel.save(image, folder / "sub-02.nii.gz")
    with pytest.raises(StudyError, match="has no orientation"):
        read_maps(folder, **atlas)
    nibabel.save(
        nibabel.Nifti1Image(np.zeros((6, 7, 8, 3), dtype=np.float32), np.eye(4)), folder / "sub-02.nii.gz"
    )
    with pytest.raises(StudyError, match="has shape 6 x 7 x 8 x 3"):
        read_maps(folder, **atlas)


def test_a_header_that_promises_too_much(folder, atlas):
    header = nibabel.Nifti1Header()
    header.set_data_shape((32767, 32767, 32767))
    header["sform_code"] = 1
    header["srow_x"], header["srow_y"], header["srow_z"] = np.eye(4)[:3]
    (folder / "sub-02.nii.gz").unlink()
    (folder / "sub-02.nii").write_bytes(header.binaryblock + b"\0" * 100)
    with pytest.raises(StudyError, match="more than 268435456 voxels"):
        read_maps(folder, **atlas)


def test_an_image_that_is_no_atlas(folder, atlas):
    with pytest.raises(StudyError, match="is no label atlas"):
        read_maps(folder, atlas_image=folder / "sub-01.nii.gz")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "index\tname\n1\tleft\n2\tright\n"),
        ("a.csv", "ROIid;ROIabbr;ROIname\n1;l;left\n2;r;right\n"),
        ("a.txt", "# no\n1 left 0 0 0 0\n2 right 0 0 0 0\n"),
    ],
)
def test_tables_of_labels(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert labels_of(tmp_path / name) == {1: "left", 2: "right"}


def test_names_of_spm_and_sessions(folder, atlas):
    for number, id in enumerate(IDS):
        (folder / f"{id}.nii.gz").rename(folder / f"mwp1IXI{number:03d}.nii.gz")
    frame = read_maps(folder, files="mwp1*", **atlas)
    assert frame.index.tolist() == ["IXI000", "IXI001", "IXI002", "IXI003"]
    for number in range(4):
        name = f"sub-{number // 2}_ses-M{12 * (number % 2):02d}_pet.nii.gz"
        (folder / f"mwp1IXI{number:03d}.nii.gz").rename(folder / name)
    with pytest.raises(StudyError, match="set files to the pattern of one map per subject, or visit"):
        read_maps(folder, files="sub-*", **atlas)
    assert read_maps(folder, files="sub-*", visit="first", **atlas).index.tolist() == ["sub-0", "sub-1"]
