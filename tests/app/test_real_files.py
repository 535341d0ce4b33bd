"""Files as they come from other programs, in the page."""

import html
import os
import re
import shutil
from pathlib import Path

import pytest

REAL = Path(os.environ.get("VIEWLOOM_REALFILES", Path(__file__).parents[3] / "shared" / "realfiles"))


def words(text):
    main = text[text.index("<main") : text.index("</main")]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", main)))


@pytest.mark.skipif(not REAL.is_dir(), reason="files of other programs not found; set VIEWLOOM_REALFILES")
def test_previews_draft_and_check(serve, tmp_path):
    pytest.importorskip("pyreadstat")
    pytest.importorskip("python_calamine")
    for name in ("mlni", "abide", "sav", "vcf"):
        shutil.copytree(REAL / name, tmp_path / name, copy_function=shutil.copyfile)
    page = serve().open()
    for path in ("abide/FS_data_ABIDE_common.xlsx", "sav/sample.sav", "abide/aseg_stats.txt"):
        answer, text = page.get("preview", path=path)
        assert answer.status == 200
        assert 'class="values"' in text
    assert "vcf" in words(page.get("preview", path="vcf/1kg_phase3_chr21_start.vcf.gz")[1])
    drafted = words(page.ask("GET", page.run("draft", below="mlni"))[1])
    assert "test_covariate.tsv participants; 99 subjects" in drafted
    assert "the same measures as in test_feature.tsv" in drafted
    checked = words(page.ask("GET", page.run("check", file="mlni/study.toml"))[1])
    assert "99 subjects can be clustered" in checked
