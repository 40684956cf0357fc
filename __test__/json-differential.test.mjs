// The frame reader against JSON.parse: whatever Node.js accepts as JSON is accepted, with the same values, and whatever it
// does not accept is an invalid frame. By generated lines, odd ones and broken ones, through whole commands.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { chunk, exit, LAST_CHUNK, lines, startEndpoint, STREAM_HEAD } from "./support/endpoint.mjs";
import { Environment } from "./support/environment.mjs";
import { execute } from "./support/package.mjs";
import { randomFrom } from "./support/random.mjs";
import { SOAK } from "./support/soak.mjs";

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** What a stream of these bytes comes to, by the rules of the protocol and JSON.parse. */
function expected(bytes) {
  const output = { stdout: [], stderr: [] };
  let last = 0;
  for (const line of new TextDecoder().decode(bytes).split("\n")) {
    if (line.trim() === "") continue;
    let frame;
    try {
      frame = JSON.parse(line);
    } catch {
      return "CreateOS returned an invalid process frame.";
    }
    if (typeof frame !== "object" || frame === null || Array.isArray(frame)) return "CreateOS returned an invalid process frame.";
    if (frame.type === "heartbeat") continue;
    if (frame.type === "data") {
      if (!Number.isSafeInteger(frame.seq) || frame.seq < 1) return "CreateOS process sequence is invalid.";
      if (frame.seq <= last) continue;
      if (frame.seq > last + 1) return "CreateOS process output has a sequence gap.";
      if (!["stdout", "stderr"].includes(frame.stream) || typeof frame.data_base64 !== "string" || !BASE64.test(frame.data_base64)) return "CreateOS process output is invalid.";
      output[frame.stream].push(Buffer.from(frame.data_base64, "base64"));
      last = frame.seq;
    } else if (frame.type === "exit") {
      const code = Number.isInteger(frame.exit_code) ? frame.exit_code : null;
      const signal = typeof frame.signal === "string" && (code !== null || /^SIG[A-Z0-9]+$/.test(frame.signal)) ? frame.signal : null;
      if (code === null && signal === null) return "CreateOS process exit status is missing.";
      const text = (stream) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.concat(output[stream]));
      return { exitCode: code, signal, stdout: text("stdout"), stderr: text("stderr") };
    } else if (frame.type === "error") {
      return frame.error === "output_offset_expired" ? "CreateOS process output was evicted before it could be read." : "CreateOS process stream reported an error.";
    } else {
      return "CreateOS returned an unknown process event.";
    }
  }
  return assert.fail("The stream has no exit frame.");
}

/** Writes values as JSON in all the ways that there are. */
class Writer {
  constructor(random) {
    this.random = random;
  }

  one(list) {
    return list[this.random(list.length)];
  }

  space() {
    return this.random(3) ? "" : this.one([" ", "\t", "\r", "  ", " \t\r "]);
  }

  character(unit) {
    const code = unit.charCodeAt(0);
    const hex = code.toString(16).padStart(4, "0");
    const long = `\\u${this.one([hex, hex.toUpperCase()])}`;
    const short = { '"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" }[unit];
    const raw = code < 0x20 || unit === '"' || unit === "\\" || (code >= 0xd800 && code < 0xe000) ? [] : [unit, unit, unit, unit, unit, unit];
    return this.one([long, ...(short ? [short, short] : []), ...raw]);
  }

  string(text) {
    return `"${text.split("").map((unit) => this.character(unit)).join("")}"`;
  }

  number(value) {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) return String(value);
    const forms = [`${value}`, `${value}.0`, `${value}.000`, `${value}e0`, `${value}E+00`, `${value}0e-1`, `${value}00E-2`];
    return this.one(forms);
  }

  value(depth = 0) {
    const kinds = depth > 4 ? 6 : 8;
    switch (this.random(kinds)) {
      case 0: return "null";
      case 1: return this.one(["true", "false"]);
      case 2: return this.one(["0", "-0", "-0.0e-5", "1e400", "-1E+400", "1e-400", "123456789012345678901234567890", "5e-324", "0.1e1", "9007199254740993"]);
      case 3: return this.string(this.one(["", "x", "\ud800", "\udc00\ud800", "\u{1f600}", "\0", "\u2028", "type", "a\"b\\c/d"]));
      case 4: return `[${" ".repeat(this.random(3))}]`;
      case 5: return this.random(20) ? "{}" : `${'{"a":['.repeat(200)}${"]}".repeat(200)}`;
      case 6: return `[${Array.from({ length: this.random(4) }, () => this.value(depth + 1)).join(`${this.space()},`)}]`;
      default: return this.object(Array.from({ length: this.random(4) }, () => [this.one(["type", "seq", "a", "", "__proto__", "constructor"]), this.value(depth + 1)]));
    }
  }

  object(members) {
    return `{${this.space()}${members.map(([key, text]) => `${this.string(key)}${this.space()}:${this.space()}${text}${this.space()}`).join(`,${this.space()}`)}}`;
  }

  /** A frame with its members in any order, members that nobody knows, and repeated ones, of which the last counts. */
  frame(frame) {
    const members = Object.entries(frame).map(([key, value]) => [key, typeof value === "number" ? this.number(value) : this.string(value)]);
    for (let at = members.length - 1; at > 0; at--) {
      const other = this.random(at + 1);
      [members[at], members[other]] = [members[other], members[at]];
    }
    for (const key of Object.keys(frame)) if (this.random(6) === 0) members.unshift([key, this.value()]);
    for (let extra = this.random(3); extra > 0; extra--) members.splice(this.random(members.length + 1), 0, [this.one(["x", "__proto__", "Type", "seq ", "\ud83d", ""]), this.value()]);
    return `${this.space()}${this.object(members)}${this.space()}`;
  }
}

describe("frames and JSON.parse", async () => {
  const handlers = {};
  const endpoint = await startEndpoint(handlers);
  const environment = new Environment(endpoint);
  const client = environment.client({ reconnect: { attempts: 0 } });
  const bodies = new Map();
  handlers.create = (exchange) => exchange.success({ process_id: `p${/'body' '(\d+)'/.exec(exchange.body.toString())[1]}` });
  handlers.connect = (exchange) => {
    const body = bodies.get(Number(/\/p(\d+)\//.exec(exchange.path)[1]));
    return exchange.raw(Buffer.concat([STREAM_HEAD, chunk(body), LAST_CHUNK]));
  };

  async function agrees(number, body) {
    bodies.set(number, body);
    const wanted = expected(body);
    const seen = await execute(client, environment.params({ command: "body", args: [String(number)] })).then(
      ({ exitCode, signal, stdout, stderr }) => ({ exitCode, signal, stdout, stderr }), (error) => error.message);
    bodies.delete(number);
    assert.deepEqual(seen, wanted, `number ${number}: ${JSON.stringify(body.toString("latin1"))}`);
    return wanted;
  }

  async function all(count, make) {
    const kinds = {};
    let next = 0;
    const lane = async () => {
      while (next < count) {
        const number = next++;
        const outcome = await agrees(number, make(randomFrom(number + 1)));
        const kind = typeof outcome === "string" ? outcome : "accepted";
        kinds[kind] = (kinds[kind] ?? 0) + 1;
      }
    };
    await Promise.all(Array.from({ length: 8 }, lane));
    return kinds;
  }

  const payload = (random) => Buffer.from(Array.from({ length: random(40) }, () => random(256))).toString("base64");
  const frames = (random, count) => Array.from({ length: count }, (_, i) => ({ type: "data", seq: i + 1, stream: random(2) ? "stdout" : "stderr", data_base64: payload(random) }));
  const end = (random) => [exit(random(256)), { type: "exit", signal: "SIGKILL" }, { type: "exit", exit_code: 1, signal: "odd \ud800" }, { type: "exit", exit_code: -1 }, { type: "exit", exit_code: 2 ** 40 }][random(5)];

  const ODD = SOAK ? 3000 : 150;
  test(`${ODD} streams of a hundred odd but valid lines each are read as JSON.parse reads them`, async (t) => {
    const kinds = await all(ODD, (random) => {
      const writer = new Writer(random);
      const odd = frames(random, 100).flatMap((frame) => [writer.frame(frame), ...(random(5) ? [] : [writer.frame({ type: "heartbeat" })]), ...(random(9) ? [] : [writer.one(["", " ", "\t\r", "\u00a0", "\u2003\ufeff"])])]);
      return Buffer.from(`${random(3) ? "" : "\ufeff"}${[...odd, writer.frame(end(random))].join(writer.one(["\n", "\r\n"]))}\n`);
    });
    assert.deepEqual(kinds, { accepted: ODD });
    t.diagnostic(JSON.stringify(kinds));
  });

  const BROKEN = SOAK ? 100_000 : 4000;
  test(`${BROKEN} streams with lines that were damaged are accepted or refused as JSON.parse does`, async (t) => {
    const damage = [..."{}[]\",:\\/-+.0123456789eEunltrfas \t\0\x1f", "\\u", "\\ud8", "null", "true", "1e", "-", "00", '""', "\\x", "//", "\ufeff", "\u00e9", "\xff", "\xc3", "\xed\xa0\x80"];
    const kinds = await all(BROKEN, (random) => {
      const writer = new Writer(random);
      const candidates = [...frames(random, 3), { type: "heartbeat" }, { type: "error", error: "output_offset_expired" }, { type: "error" }, { type: "other" }, end(random)];
      const victim = random(3) ? random(3) : random(candidates.length);
      const texts = candidates.slice(0, 3).map((frame) => writer.frame(frame));
      const line = victim < 3 ? texts[victim] : writer.frame(candidates[victim]);
      let bytes = Buffer.from(line);
      for (let hits = 1 + random(2); hits > 0; hits--) {
        const at = random(bytes.length + 1);
        const piece = random(4) ? Buffer.from(writer.one(damage), "latin1") : Buffer.from(writer.one(damage));
        bytes = Buffer.concat([bytes.subarray(0, at), random(3) ? piece : Buffer.alloc(0), bytes.subarray(Math.min(bytes.length, at + random(3)))]);
      }
      const before = victim < 3 ? texts.slice(0, victim) : texts;
      const after = victim < 3 ? texts.slice(victim + 1) : [];
      return Buffer.concat([Buffer.from(before.map((text) => `${text}\n`).join("")), bytes, Buffer.from(`\n${after.map((text) => `${text}\n`).join("")}${lines(exit(5))}`)]);
    });
    t.diagnostic(JSON.stringify(kinds));
    assert.ok(Object.keys(kinds).length >= 8, "all kinds of outcomes came up");
  });
});
