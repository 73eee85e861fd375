"""The builder of LLVM's text: which instruction each operator appends, and how constants are written."""

from __future__ import annotations

import pytest

from stridedgpu.devices.cpu.compiled.ir import Code, Value


def values(type_):
    """Two values of a type."""
    code = Code()
    return code.source.load(type_), code.target.load(type_)


def appended(value):
    """The instruction that defines a value."""
    (line,) = (line for line in value.code.text("kernel").splitlines() if line.startswith(f"  {value.name} = "))
    return line.partition(" = ")[2]


@pytest.mark.parametrize(
    "operation, whole, floating",
    [
        (lambda a, b: a + b, "add", "fadd"),
        (lambda a, b: a - b, "sub", "fsub"),
        (lambda a, b: a * b, "mul", "fmul"),
        (lambda a, b: a / b, "fdiv", "fdiv"),
        (lambda a, b: a // b, "udiv", None),
        (lambda a, b: a % b, "urem", None),
        (lambda a, b: a & b, "and", None),
        (lambda a, b: a | b, "or", None),
        (lambda a, b: a ^ b, "xor", None),
        (lambda a, b: a << b, "shl", None),
        (lambda a, b: a >> b, "lshr", None),
        (lambda a, b: a.shifted(b), "ashr", None),
        (lambda a, b: a < b, "icmp slt", "fcmp olt"),
        (lambda a, b: a <= b, "icmp sle", "fcmp ole"),
        (lambda a, b: a > b, "icmp sgt", "fcmp ogt"),
        (lambda a, b: a >= b, "icmp sge", "fcmp oge"),
        (lambda a, b: a == b, "icmp eq", "fcmp oeq"),
        (lambda a, b: a != b, "icmp ne", "fcmp une"),
    ],
)
@pytest.mark.parametrize("type_", ["i32", "<8 x i16>", "double", "<4 x float>"])
def test_an_operator_appends_an_instruction(operation, whole, floating, type_):
    left, right = values(type_)
    instruction = floating if left.is_float else whole
    if instruction is None or (instruction == "fdiv" and not left.is_float):
        return
    result = operation(left, right)
    assert appended(result) == f"{instruction} {type_} {left.name}, {right.name}"
    compares = "cmp" in instruction
    assert result.type == (type_ if not compares else f"<{left.lanes} x i1>" if left.is_vector else "i1")


@pytest.mark.parametrize(
    "type_, number, words",
    [
        ("i64", 7, "7"),
        ("float", 255, "255.0"),
        ("double", 0.5, "0x3FE0000000000000"),
        ("<2 x i8>", -1, "<i8 -1, i8 -1>"),
        ("<2 x double>", 1, "<double 1.0, double 1.0>"),
        ("<2 x i1>", "true", "<i1 true, i1 true>"),
        ("<2 x i8>", "poison", "poison"),
    ],
)
def test_a_number_is_a_constant_of_the_type_beside_it(type_, number, words):
    assert Code().constant(number, type_).name == words


def test_addresses_move_by_bytes():
    code = Code()
    step = code.first * 3
    assert appended(code.source + step) == f"getelementptr i8, ptr %source, i64 {step.name}"
    assert appended(code.source + 64) == "getelementptr i8, ptr %source, i64 64"
    back = code.source - step
    assert appended(back).startswith("getelementptr i8, ptr %source, i64 %v")
    assert f"sub i64 0, {step.name}" in code.text("kernel")
    assert appended(code.parameters.word(3)).endswith("align 8")
    assert "getelementptr i8, ptr %parameters, i64 24" in code.text("kernel")


@pytest.mark.parametrize("method, condition", [("at_most", "slt"), ("at_least", "sgt")])
def test_limits_select_one_of_both(method, condition):
    left, right = values("i64")
    chosen = getattr(left, method)(right)
    assert f"icmp {condition} i64 {left.name}, {right.name}" in left.code.text("kernel")
    assert appended(chosen).endswith(f", i64 {left.name}, i64 {right.name}")
    assert appended(getattr(left, method)(9)).endswith(f", i64 {left.name}, i64 9")


def test_numbers_stand_on_either_side_of_a_selection():
    left, right = values("<2 x float>")
    condition = left < right
    assert appended(condition.select(0, left)).endswith(
        f", <2 x float> <float 0.0, float 0.0>, <2 x float> {left.name}"
    )
    assert appended(condition.select(left, 0)).endswith(
        f", <2 x float> {left.name}, <2 x float> <float 0.0, float 0.0>"
    )
    assert appended(~condition) == f"xor <2 x i1> {condition.name}, <i1 true, i1 true>"


@pytest.mark.parametrize(
    "type_, suffix", [("i64", "i64"), ("double", "f64"), ("<16 x i8>", "v16i8"), ("<4 x float>", "v4f32")]
)
def test_an_intrinsic_is_named_by_the_type(type_, suffix):
    left, right = values(type_)
    called = left.intrinsic("llvm.some", right, 1)
    assert called.type == type_
    assert appended(called).startswith(f"call {type_} @llvm.some.{suffix}({type_} {left.name}, {type_} {right.name}, ")


def test_a_vector_is_reinterpreted_and_taken_apart():
    left, right = values("<4 x float>")
    assert left.recast("i64").type == "<2 x i64>"
    assert left.recast("i16").type == "<8 x i16>"
    assert left.extract(3).type == "float"
    assert left.shuffle([0, 7, -1], right).type == "<3 x float>"
    assert appended(left.shuffle([2, -1])).endswith("<2 x i32> <i32 2, i32 poison>")
    assert left.code.vector("<2 x float>", [left.extract(0), right.extract(1)]).type == "<2 x float>"
    assert [one.type for one in left.code.source.strided(left.code.first, 3)] == ["ptr"] * 3


def test_a_case_is_generated_for_either_value_of_a_condition():
    code = Code()
    assert list(code.cases(None)) == [False]
    assert list(code.cases(code.first < code.last)) == [True, False]
    assert code.text("kernel").count("  br i1 ") == 2


def test_a_value_has_no_truth_while_code_is_generated():
    left, right = values("i64")
    assert isinstance(left == right, Value)
    with pytest.raises(TypeError, match="known when the code runs"):
        bool(left == right)
