// Recomputes every hash and key of vectors.json, with the standard library only.
//
// Usage: node vectors.mjs [vectors.json]
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const maximumDigits = 400;
const maximumDepth = 64;

class Refused extends Error {}

function refuse(why) {
  throw new Refused(why);
}

// JSON.parse drops duplicate keys and the digits of large numbers, so the
// document is read by hand; JSON.parse still decodes each string.
class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.depth = 0;
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found && found[0];
  }

  skip() {
    this.match(/[ \t\n\r]*/y);
  }

  take(char) {
    this.skip();
    if (this.text[this.at] !== char) return false;
    this.at++;
    return true;
  }

  document() {
    const form = this.value();
    this.skip();
    return this.at === this.text.length ? form : refuse("trailing data");
  }

  value() {
    this.skip();
    switch (this.text[this.at]) {
      case "{":
        return this.nested("{", "}", () => this.object());
      case "[":
        return this.nested("[", "]", () => this.array());
      case '"':
        return JSON.stringify(this.string());
    }
    const word = this.match(/true|false|null/y);
    if (word) return word;
    const literal = this.match(/-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y);
    return literal ? number(literal) : refuse("syntax");
  }

  nested(open, close, body) {
    if (this.depth === maximumDepth) refuse("depth");
    this.depth++;
    this.at++;
    const form = this.take(close) ? open + close : body();
    this.depth--;
    return form;
  }

  array() {
    const items = [];
    do items.push(this.value());
    while (this.take(","));
    return this.take("]") ? `[${items.join(",")}]` : refuse("syntax");
  }

  object() {
    const members = new Map();
    do {
      this.skip();
      const key = this.string();
      if (members.has(key)) refuse("duplicate key");
      if (!this.take(":")) refuse("syntax");
      members.set(key, this.value());
    } while (this.take(","));
    if (!this.take("}")) refuse("syntax");
    // JavaScript compares strings by UTF-16 unit; code points need UTF-8 bytes.
    const keys = [...members.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    return `{${keys.map((key) => `${JSON.stringify(key)}:${members.get(key)}`).join(",")}}`;
  }

  string() {
    const quoted = this.match(/"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y);
    if (!quoted) refuse("syntax");
    const text = JSON.parse(quoted);
    return text.isWellFormed() ? text.normalize("NFC") : refuse("lone surrogate");
  }
}

function number(literal) {
  const [, sign, whole, fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE](.+))?$/.exec(literal);
  const digits = (whole + fraction).replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  const scale = Number(exponent) - fraction.length + digits.length - significant.length;
  if (!significant) return sign ? refuse("negative zero") : "0";
  if (scale >= 0) {
    if (significant.length + scale > maximumDigits) refuse("digits");
    return sign + significant + "0".repeat(scale);
  }
  const value = Number(literal);
  if (!Number.isFinite(value)) refuse("overflow");
  if (Object.is(value, -0)) refuse("negative zero");
  return Number.isInteger(value) && Math.abs(value) >= 1e21 ? number(String(value)) : String(value);
}

function canonical(bytes) {
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  try {
    return Buffer.from(new Reader(text.decode(bytes)).document());
  } catch (error) {
    throw error instanceof TypeError ? new Refused(error.message) : error;
  }
}

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

function check(vector) {
  const source = "input_hex" in vector ? Buffer.from(vector.input_hex, "hex") : Buffer.from(vector.input);
  try {
    const form = canonical(source);
    return !("rule" in vector) && form.equals(Buffer.from(vector.form)) && sha256(form) === vector.sha256;
  } catch (error) {
    if (error instanceof Refused) return "rule" in vector;
    throw error;
  }
}

function key(v) {
  const fields = ["veetbot.tool.v1", v.run_id, v.step, v.call_id, v.tool_name, v.tool_version, v.arguments_hash];
  return sha256(fields.join("\0"));
}

const path = process.argv[2] ?? new URL("vectors.json", import.meta.url);
const { forms, keys } = JSON.parse(readFileSync(path, "utf8"));
const bad = [...forms.filter((v) => !check(v)), ...keys.filter((v) => key(v) !== v.key)];
for (const { name } of bad) console.log("differs:", name);
console.log(forms.length + keys.length, "vectors,", bad.length, "differ");
process.exitCode = bad.length ? 1 : 0;
