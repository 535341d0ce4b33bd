"""Ids: spellings of one subject become one, and nothing else does."""

import pytest

from viewloom.study.ids import STYLES, canonical_ids, count_unknown

SUBJECT = [
    "011_S_0002",
    "011_s_0002",
    "2",
    "0002",
    "2.0",
    "sub-ADNI011S0002",
    "sub-011S0002",
    "ADNI011S0002",
    "sub-ADNI011S0002_ses-M00",
    "011_S_0002_011_S_0002",
    "2_2",
    " 2 ",
]
STRANGERS = ["phantom", "011_S_0002b", "S_0002", "2.5", "-2", "1_2", "123456", "", "2024-01-02", "١٢"]


@pytest.mark.parametrize("spelling", SUBJECT)
def test_adni_spellings_of_one_subject_become_the_rid(spelling):
    assert canonical_ids([spelling], "adni").tolist() == ["2"]


def test_five_digits_and_other_sites_are_other_subjects():
    assert canonical_ids(["011_S_10002", "941_S_0020"], "adni").tolist() == ["10002", "20"]


@pytest.mark.parametrize("text", STRANGERS)
def test_what_is_not_adni_stays_and_is_counted(text):
    assert canonical_ids([text], "adni").tolist() == [text]
    assert count_unknown([text, "2"], "adni") == 1


def test_exact_is_the_default_and_touches_nothing():
    ids = canonical_ids([*SUBJECT, *STRANGERS, 2])
    assert ids.tolist() == [*SUBJECT, *STRANGERS, "2"]
    assert ids.name == "id"
    assert count_unknown(ids) == 0


@pytest.mark.parametrize("style", STYLES)
def test_the_canonical_form_is_its_own(style):
    once = canonical_ids([*SUBJECT, *STRANGERS], style)
    assert canonical_ids(once, style).equals(once)
