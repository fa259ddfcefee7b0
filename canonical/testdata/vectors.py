"""Recomputes every hash and key of vectors.json, with the standard library only.

Usage: python3 vectors.py [vectors.json]
"""

import hashlib
import json
import pathlib
import sys
import unicodedata

MAXIMUM_DIGITS = 400
MAXIMUM_DEPTH = 64


class Refused(ValueError):
    """The document breaks a rule of the canonical form."""


class Number(str):
    """A number as it was spelled."""


def canonical(raw: bytes) -> bytes:
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=unique,
            parse_int=Number,
            parse_float=Number,
            parse_constant=refuse,
        )
        return encode(value, 0).encode("utf-8")
    except (UnicodeError, json.JSONDecodeError, RecursionError) as error:
        raise Refused(str(error)) from error


def refuse(what):
    raise Refused(what)


def unique(pairs):
    result = {}
    for key, value in pairs:
        key = unicodedata.normalize("NFC", key)
        if key in result:
            refuse("duplicate key")
        result[key] = value
    return result


def encode(value, depth):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Number):
        return number(value)
    if isinstance(value, str):
        return quoted(value)
    if depth == MAXIMUM_DEPTH:
        refuse("depth")
    if isinstance(value, list):
        return "[" + ",".join(encode(item, depth + 1) for item in value) + "]"
    # Python compares strings by code point, which is the order wanted.
    members = (quoted(key) + ":" + encode(value[key], depth + 1) for key in sorted(value))
    return "{" + ",".join(members) + "}"


def quoted(text):
    # With ensure_ascii off, json writes exactly the escapes of RFC 8785.
    return json.dumps(unicodedata.normalize("NFC", text), ensure_ascii=False)


def number(literal):
    negative = literal.startswith("-")
    mantissa, _, exponent = literal.lstrip("-").lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    scale = int(exponent or "0") - len(fraction)
    digits = (whole + fraction).lstrip("0")
    scale += len(digits) - len(digits.rstrip("0"))
    digits = digits.rstrip("0")
    sign = "-" if negative else ""
    if not digits:
        return refuse("negative zero") if negative else "0"
    if scale >= 0:
        if len(digits) + scale > MAXIMUM_DIGITS:
            refuse("digits")
        return sign + digits + "0" * scale
    return double(float(literal))


def double(value):
    if value in (float("inf"), float("-inf")):
        refuse("overflow")
    text = repr(value)
    if text == "-0.0":
        refuse("negative zero")
    if text == "0.0":
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or "0")
    digits = whole + fraction
    point -= len(digits) - len(digits.lstrip("0"))
    digits = digits.strip("0")
    if point >= len(digits):
        return sign + digits + "0" * (point - len(digits))
    if point > 0:
        return sign + digits[:point] + "." + digits[point:]
    if point > -6:
        return sign + "0." + "0" * -point + digits
    tail = "." + digits[1:] if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1}"


def key(fields):
    parts = [
        "veetbot.tool.v1",
        fields["run_id"],
        str(fields["step"]),
        fields["call_id"],
        fields["tool_name"],
        fields["tool_version"],
        fields["arguments_hash"],
    ]
    return hashlib.sha256("\0".join(parts).encode("utf-8")).hexdigest()


def source(vector):
    if "input_hex" in vector:
        return bytes.fromhex(vector["input_hex"])
    return vector["input"].encode("utf-8")


def check(vector):
    try:
        form = canonical(source(vector))
    except Refused:
        return "rule" in vector
    if "rule" in vector:
        return False
    return form == vector["form"].encode("utf-8") and hashlib.sha256(form).hexdigest() == vector["sha256"]


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("vectors.json")
    vectors = json.loads(pathlib.Path(path).read_bytes())
    bad = [vector["name"] for vector in vectors["forms"] if not check(vector)]
    bad += [vector["name"] for vector in vectors["keys"] if key(vector) != vector["key"]]
    for name in bad:
        print("differs:", name)
    print(len(vectors["forms"]) + len(vectors["keys"]), "vectors,", len(bad), "differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
