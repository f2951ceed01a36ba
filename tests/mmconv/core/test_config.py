"""Run and model files: overrides, secrets, and errors that name the field."""

from pathlib import Path

import pytest

from mmconv.core.config import (
    ModelSpec,
    RunSpec,
    SamplingSpec,
    load_model,
    model_files,
    override,
    secret,
)
from mmconv.core.documents import read_document, validate
from mmconv.core.errors import ConfigError

RUN = {"benchmark": "convbench", "models": {"candidate": "fake/echo"}}


def test_an_override_fills_an_empty_group() -> None:
    assert override({"a": None}, ["a.b=1"]) == {"a": {"b": 1}}


def test_overriding_leaves_the_original_alone() -> None:
    document = {"a": {"b": 1}}
    assert override(document, ["a.b=2", "c.d=x"]) == {"a": {"b": 2}, "c": {"d": "x"}}
    assert document == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("nonsense", "expected field.field=value"),
        ("benchmark.x=1", "'benchmark' is a value"),
        ("seed=[1", "not YAML"),
        ("options={order: both, order: random}", "'order' stands on line 1 too"),
        ("models.candidate.model.name=9", "'model' is a value"),
    ],
)
def test_a_bad_override_is_told(item: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        override(RUN, [item])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("models.candidat.attempts=1", "'candidat' has .*; did you mean candidate"),
        ("models.x.attempts=1", "'x' has no provider and no model; there are: candidate"),
        ("models={1: {attempts: 1}}", "1 has no provider and no model"),
    ],
)
def test_a_role_that_only_an_override_names_is_listed_with_others(item: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"\n  models: {message}"):
        validate(RunSpec, override(RUN, [item]), "run.yaml")


class TestFieldsOfAModelByItsName:
    """They are laid over what the name stands for."""

    def model(self, model: str, *items: str) -> ModelSpec:
        document = override({**RUN, "models": {"judge": model}}, items)
        return validate(RunSpec, document, "run.yaml").models["judge"]

    def test_of_a_shipped_model(self) -> None:
        shipped = load_model("gpt-4o")
        items = ("models.judge.max_concurrency=4", "models.judge.options.max_side=9")
        expected = {"max_concurrency": 4, "options": {"max_side": 9}}
        assert self.model("gpt-4o", *items) == shipped.model_copy(update=expected)

    def test_of_ones_own_file(self, tmp_path: Path) -> None:
        file = tmp_path / "mine.yaml"
        file.write_text(
            "provider: openai\nmodel: org/x\nabout: {images: false}\noptions: {identity: x}\n"
        )
        role = self.model(str(file), "models.judge.base_url=http://h:1/v1")
        assert (role.label, role.base_url) == ("mine", "http://h:1/v1")
        assert (role.about.images, role.options) == (False, {"identity": "x"})

    def test_of_a_providers_model(self) -> None:
        assert self.model("fake/failing", "models.judge.options.rate=0.3") == ModelSpec(
            provider="fake", model="failing", options={"rate": 0.3}
        )

    def test_a_served_model_keeps_its_public_name(self, tmp_path: Path) -> None:
        file = tmp_path / "mine.yaml"
        file.write_text("provider: fake\nmodel: echo\n")
        document = override({"models": {"public": str(file)}}, ["models.public.attempts=2"])
        assert document == {
            "models": {"public": {"provider": "fake", "model": "echo", "attempts": 2}}
        }

    def test_a_file_that_is_wrong_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "mine.yaml"
        file.write_text("provider: fake\nmodle: echo\n")
        with pytest.raises(ConfigError, match=r"mine\.yaml: wrong .*\n.*\n.*did you mean model\?"):
            self.model(str(file), "models.judge.attempts=2")


class TestAddress:
    """`base_url` may name variables of the environment; what they hold is never written down."""

    spec = ModelSpec(
        provider="openai", model="x", base_url="http://${MMCONV_HOST}:${MMCONV_PORT}/v1"
    )

    def test_the_environment_fills_it_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MMCONV_HOST", "node7")
        monkeypatch.setenv("MMCONV_PORT", "8000")
        assert self.spec.address == "http://node7:8000/v1"
        assert "node7" not in self.spec.model_dump_json()
        assert ModelSpec(provider="openai", model="x").address is None

    def test_what_is_not_set_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MMCONV_HOST", "node7")
        with pytest.raises(ConfigError, match="environment variable MMCONV_PORT is not set"):
            _ = self.spec.address


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"trails": 2}, "trails is not a field here; did you mean trials?"),
        ({"benchmark": None}, "benchmark: "),
        (
            {"sampling": {"temperature": 0.5}},
            r"sampling: is set by model role, as in {candidate: {temp",
        ),
        ({"models": {"candidate": ["a", "b"]}}, "models: 'candidate' is a list; it takes one"),
        (
            {"sampling": {"candidate": 5}},
            r"candidate is not a single value: it has the fields temper",
        ),
        ({"sampling": {"candidate": {"max_tokens": "1e3"}}}, "is the text '1e3', not a whole numb"),
        (
            {"sampling": {"candidate": {"temperature": "1"}}},
            r"temperature is the text '1', not a n",
        ),
        ({"limit": "few"}, "limit is the text 'few', not a whole number"),
        ({"models": {"x": {"provider": "hf"}}}, r"models\.x\.model is needed and not set"),
        ({"limit": 0}, "limit: "),
        ({"shuffle": 1}, "^run.yaml: .*\n  shuffle draws limit samples at random: set limit"),
        (
            {"samples": [3], "limit": 1},
            "samples names the samples to run: leave out limit and shuffle",
        ),
        ({"samples": []}, "samples: "),
        ({"sampling": {"judge": {}}}, "the role 'judge', which has no model"),
        ({"sampling": {"candidate": {"top_p": 2}}}, r"sampling\.candidate\.top_p"),
        (
            {"sampling": {"candidate": {"temprature": 1}}},
            r"sampling\.candidate\.temprature is not a field here; did you mean temperature\?",
        ),
        (
            {"models": {"candidate": {"provider": "hf", "model": "x", "price": {"inptu": 1}}}},
            r"models\.candidate\.price\.inptu is not a field here; did you mean input\?",
        ),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate(RunSpec, {**RUN, **fields}, "run.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\noptions: {}\nseed: 2\n", " line 3: 'seed' stands on line 1 too"),
        ("options:\n  a: 1\n  b: 2\n  a: 3\n", " line 4: 'a' stands on line 2 too"),
        ('{"seed": 1, "seed": 2}', " line 1: 'seed' stands on line 1 too"),
        ("all:\n- {a: 1}\n- {b: 1,\n   b: 1}\n", " line 4: 'b' stands on line 3 too"),
        ("é: 1\n".encode("utf-16"), " line 1: not UTF-8; save the file as UTF-8"),
        ("é: 1\n".encode("latin-1"), " line 1: not UTF-8; save the file as UTF-8"),
        ("", ": expected a mapping .*, found nothing"),
        ("- a\n", ": expected a mapping .*, found a list"),
    ],
)
def test_a_misleading_document_is_refused(tmp_path: Path, text: str | bytes, message: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError, match=rf"run\.yaml{message}$"):
        read_document(file)


def test_numbers_that_are_what_they_seem_are_read(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("all: [0, -7, 1_000, 0x1F, 007, '010']\n")
    assert read_document(file) == {"all": [0, -7, 1000, 31, 7, "010"]}


def test_a_model_file_needs_no_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("provider: fake\nmodel: echo\n")
    with pytest.raises(ConfigError, match=r"; did you mean mine\.yaml\?$"):
        load_model("mine")


def test_a_key_may_stand_in_several_mappings_and_override_what_is_merged(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("one: &one {a: 1, b: 2}\ntwo: {<<: *one, a: 3}\n")
    assert read_document(file) == {"one": {"a": 1, "b": 2}, "two": {"a": 3, "b": 2}}


def test_a_secret_is_read_by_variable_and_missed_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MMCONV_TEST_KEY", "s3cret")
    assert secret("MMCONV_TEST_KEY") == "s3cret"
    monkeypatch.delenv("MMCONV_TEST_KEY")
    assert secret(None) is None
    with pytest.raises(ConfigError, match="MMCONV_TEST_KEY is not set"):
        secret("MMCONV_TEST_KEY")


@pytest.mark.parametrize(
    ("spec", "label"),
    [
        (ModelSpec(provider="hf", model="/ckpts/llava/"), "llava"),
        (ModelSpec(provider="openai", model="org/name"), "name"),
        (ModelSpec(provider="openai", model="x", name="mine"), "mine"),
    ],
)
def test_a_model_is_labelled_by_name_or_the_end_of_its_path(spec: ModelSpec, label: str) -> None:
    assert spec.label == label


@pytest.mark.parametrize(("fields", "label"), [("", "mine"), ("name: own\n", "own")])
def test_a_model_is_labelled_by_its_file_or_name(tmp_path: Path, fields: str, label: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"provider: openai\nmodel: org/standin\n{fields}")
    spec = validate(RunSpec, {**RUN, "models": {"candidate": str(file)}}, "run.yaml")
    assert spec.models["candidate"].label == label


@pytest.mark.parametrize("path", ["./llava", "../fake/echo", "/checkpoints/llava/", "~/llava"])
def test_a_path_that_is_no_model_file_is_told_what_it_may_stand_for(path: str) -> None:
    message = rf"'{path}' is a path, .* did you mean hf/{path} .* or {path.rstrip('/')}\.yaml\?"
    with pytest.raises(ConfigError, match=message):
        load_model(path)


def test_model_files_are_in_the_order_of_their_names() -> None:
    names = list(model_files())
    assert names == sorted(names)
    assert names.index("gpt-4o") < names.index("gpt-4o-mini")


def test_a_written_specification_overrides_no_more_than_it_was_told_to() -> None:
    role = ModelSpec(provider="fake", model="judge", sampling=SamplingSpec(top_p=None))
    message = RunSpec(
        benchmark="fbbench", models={"judge": role}, sampling={"judge": SamplingSpec(seed=1)}
    )
    read = RunSpec.model_validate_json(message.model_dump_json())
    assert read == message
    assert read.sampling["judge"].model_fields_set == {"seed"}
    assert read.models["judge"].sampling is not None
    assert read.models["judge"].sampling.model_fields_set == {"top_p"}


def test_an_empty_text_ends_no_answer() -> None:
    with pytest.raises(ConfigError, match=r"stop\.0: String should have at least 1 character"):
        validate(SamplingSpec, {"stop": [""]}, "x")
