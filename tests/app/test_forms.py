"""The form of a study: generated from the schema, and back to the same file."""

import json
import re
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viewloom.app import forms, inputs
from viewloom.study.config.editing import edited
from viewloom.study.config.positions import Problem
from viewloom.study.config.toml import json_schema
from viewloom.study.errors import StudyError

TEXT = """# my study
[study]
name = "x"  # the title
[participants]
path = "p.csv"
covariates = ["sex", "age"]  # in this order
[views."a b"]  # a view
path = 'v.csv'
missing_codes = [-4, -1]
[cluster]
include = { diagnosis = ["AD", "MCI"], age = { min = 55 } }
[model]
kernel = { "a b" = "linear" }
calibrate = false
"""
COLUMNS = forms.Choices({"": ["age", "sex", "dx"], "a b": ["id", "x"]}, ["AD", "HC"])


def fields(text=TEXT, problems=()):
    return {
        one.where: one
        for block in forms.sections(tomllib.loads(text), problems, COLUMNS)
        for one in block.fields
    }


def sent(found):
    """What a browser sends of a form that nobody has touched."""
    form = {}
    for one in found.values():
        form[f"{one.name}!"] = ["1"]
        if one.kind == "rules":
            for end in ("column", "groups", "min", "max"):
                form[f"{one.name}.{end}"] = [row.get(end, "") for row in one.value]
        elif one.kind == "boxes":
            form |= {one.name: [name for name in one.choices if name in one.value]} if one.value else {}
        else:
            form[one.name] = [one.value.replace("\n", "\r\n")]
    return form


def test_every_key_of_the_schema_has_a_field_with_a_description():
    found = fields()
    schema = json_schema()
    for block in ("study", "cluster", "preparation", "model", "report", "participants"):
        name = {"study": "About"}.get(block, block.capitalize())
        for key in schema["$defs"][name]["properties"]:
            assert found[block, key].help or found[block, key].label, key
            assert found[block, key].help, key


def test_examples_in_descriptions_can_be_copied():
    """Backslashes are not doubled in single quotes."""
    texts = list(descriptions(json_schema()))
    [given] = {match[0] for text in texts for match in re.finditer(r"pattern = '[^']*'", text)}
    assert re.fullmatch(tomllib.loads(given)["pattern"], "sub-OAS30001")


def descriptions(node):
    """All descriptions of a JSON schema."""
    if isinstance(node, dict):
        found = node.get("description")
        yield from [found] if isinstance(found, str) else []
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else []:
        yield from descriptions(inner)


def test_an_untouched_form_changes_nothing():
    found = fields()
    assert inputs.changes(sent(found), list(found.values())) == ({}, [])


def test_an_untouched_form_in_another_order_of_boxes_changes_nothing():
    found = fields()
    assert found["participants", "covariates"].kind == "boxes"
    form = sent(found)
    assert form[found["participants", "covariates"].name] == ["age", "sex"]
    assert inputs.changes(form, list(found.values()))[0] == {}


@pytest.mark.parametrize(
    ("where", "given", "value"),
    [
        (("study", "name"), 'a "b" # c', 'a "b" # c'),
        (("study", "name"), "", None),
        (("model", "seed"), " 7 ", 7),
        (("model", "gamma"), "1,5", 1.5),
        (("model", "calibrate"), "true", True),
        (("model", "kernel"), '"diffusion"', "diffusion"),
        (("views", "a b", "columns"), "ST*\r\nx y\r\n", ["ST*", "x y"]),
        (("views", "a b", "missing_codes"), "-4, NA", [-4, "NA"]),
        (("views", "a b", "missing_codes"), "[]", []),
        (("participants", "diagnosis"), "dx", "dx"),
    ],
)
def test_input_becomes_the_value(where, given, value):
    found = fields()
    form = {**sent(found), found[where].name: [given]}
    changes, problems = inputs.changes(form, list(found.values()))
    assert (changes, problems) == ({where: value}, [])
    text = edited(TEXT, changes)
    data = tomllib.loads(text)
    for part in where[:-1]:
        data = data[part]
    assert data.get(where[-1]) == value
    assert text.startswith("# my study\n")
    assert "# in this order" in text
    assert "# a view" in text


def test_rules_are_rows():
    found = fields()
    rules = found["cluster", "include"]
    assert rules.value == [{"column": "diagnosis", "groups": "AD, MCI"}, {"column": "age", "min": "55"}, {}]
    form = sent(found)
    form[f"{rules.name}.column"] = ["", "age", "mmse"]
    form[f"{rules.name}.min"] = ["", "60", ""]
    form[f"{rules.name}.groups"] = ["", "", "a, b"]
    changes, _ = inputs.changes(form, list(found.values()))
    assert changes == {("cluster", "include"): {"age": {"min": 60.0}, "mmse": ["a", "b"]}}
    form[f"{rules.name}.groups"] = ["", "x", ""]
    assert "either groups or a range" in inputs.changes(form, list(found.values()))[1][0].message


@pytest.mark.parametrize(
    ("where", "given"), [(("model", "seed"), "many"), (("participants", "levels"), "{ a")]
)
def test_input_that_cannot_be_read_is_an_error_at_the_field(where, given):
    found = fields()
    form = {**sent(found), found[where].name: [given]}
    changes, problems = inputs.changes(form, list(found.values()))
    assert changes == {}
    assert [problem.where for problem in problems] == [where]
    assert fields(problems=problems)[where].errors == [problems[0].message]


def test_fields_that_were_not_in_the_page_are_not_changed():
    found = fields()
    assert inputs.changes({}, list(found.values())) == ({}, [])
    assert inputs.changes({'["model", "seed"]': ["7"]}, list(found.values())) == ({}, [])


def test_errors_of_a_block_are_shown_there():
    blocks = forms.sections(tomllib.loads(TEXT), [Problem(("views", "a b"), "is bad")], COLUMNS)
    assert [block.errors for block in blocks if block.where == ("views", "a b")] == [["is bad"]]


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
values = st.one_of(names, st.integers(-9, 9), st.booleans(), st.lists(names, max_size=4), st.floats(-5, 5))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["study", "model", "participants"]), names, values), max_size=5))
def test_any_change_is_right_or_refused(steps):
    """The text says what was asked for, and all other lines stay."""
    text = TEXT
    for block, key, value in steps:
        try:
            new = edited(text, {(block, key): value})
        except StudyError:
            continue
        assert tomllib.loads(new)[block][key] == value
        kept = [line for line in text.split("\n") if line.startswith("#") or line.startswith("[")]
        assert [line for line in kept if line not in new.split("\n")] == []
        text = new


def test_names_of_inputs_are_plain():
    for one in fields().values():
        assert json.loads(one.name) == list(one.where)
        assert re.fullmatch(r"key(-[0-9a-f]+)+", one.id)
