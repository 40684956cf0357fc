// Many commands at once: on one lease, over connections that fail, each gets its own output and is created once.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { data, exit, startEndpoint, STREAM_HEAD, chunk, lines } from "./support/endpoint.mjs";
import { bash, Environment, recorder } from "./support/environment.mjs";
import { execute } from "./support/package.mjs";
import { randomFrom } from "./support/random.mjs";
import { emulatorForFile } from "./support/sandbox.mjs";

describe("commands in parallel", async () => {
  test("sixty real commands on one lease, 5 % of connections cut at random", async (t) => {
    const host = await emulatorForFile();
    const sandbox = await host.sandbox();
    const random = randomFrom(60);
    let cuts = 0;
    host.interfere(t, ({ route }) => {
      if (route !== "connect" || random(20) > 0) return undefined;
      cuts++;
      return { cutAfter: random(4000), how: random(2) ? "reset" : "end" };
    });
    const client = sandbox.client({ reconnect: { delayMs: 5 } });
    const script = 'for i in $(seq 100); do echo "$1 out $i"; echo "$1 err $i" >&2; [ $((i % 25)) = 0 ] && sleep 0.01; done; exit $(($1 % 100))';
    const before = sandbox.requests("create").length;
    const results = await Promise.all(Array.from({ length: 60 }, async (_, i) => {
      const log = recorder();
      return { log, ...await execute(client, sandbox.params(bash(script, String(i))), null, log) };
    }));
    for (const [i, { stdout, stderr, exitCode, log }] of results.entries()) {
      const expected = (name) => Array.from({ length: 100 }, (__, n) => `${i} ${name} ${n + 1}\n`).join("");
      assert.deepEqual([stdout, stderr, exitCode], [expected("out"), expected("err"), i]);
      assert.deepEqual([log.text("stdout"), log.text("stderr")], [stdout, stderr]);
    }
    assert.equal(sandbox.requests("create").length - before, 60, "each was created exactly once");
    t.diagnostic(`${cuts} of ${sandbox.requests("connect").length} connections were cut`);
  });

  test("500 at once, a tenth of their connections cut", async (t) => {
    const random = randomFrom(500);
    const owners = new Map();
    const endpoint = await startEndpoint({
      create: (exchange) => {
        const id = `proc_${exchange.count}`;
        owners.set(id, Number(/'number' '(\d+)'/.exec(exchange.body.toString())[1]));
        return exchange.success({ process_id: id });
      },
      connect: async (exchange) => {
        const owner = owners.get(exchange.path.split("/")[5]);
        const frames = [...Array.from({ length: 20 }, (_, n) => data(n + 1, `${owner}:${n}\n`, n % 2 ? "stderr" : "stdout")), exit(owner % 256)];
        const bytes = Buffer.concat([STREAM_HEAD, chunk(lines(...frames.slice(Number(exchange.query.after))))]);
        if (random(10) > 0) return exchange.raw(Buffer.concat([bytes, Buffer.from("0\r\n\r\n")]));
        await exchange.raw(bytes.subarray(0, random(bytes.length)));
        setImmediate(() => (random(2) ? exchange.reset() : exchange.fin()));
        return undefined;
      },
    }, { t });
    const environment = new Environment(endpoint);
    const client = environment.client({ reconnect: { delayMs: 1, attempts: 10 } });
    const results = await Promise.all(Array.from({ length: 500 }, async (_, i) => {
      const log = recorder();
      return { log, ...await execute(client, environment.params({ command: "number", args: [String(i)] }), null, log) };
    }));
    for (const [i, { stdout, stderr, exitCode, log }] of results.entries()) {
      const lists = [0, 1].map((odd) => Array.from({ length: 10 }, (_, n) => `${i}:${2 * n + odd}\n`).join(""));
      assert.deepEqual([stdout, stderr, exitCode], [...lists, i % 256]);
      assert.deepEqual(log.calls.map(([, text]) => text).join(""), Array.from({ length: 20 }, (_, n) => `${i}:${n}\n`).join(""), "in their true order");
    }
    assert.deepEqual([endpoint.of("create").length, new Set(owners.values()).size], [500, 500]);
  });

  test("commands that have fallen silent keep nothing of what others may be ahead", async (t) => {
    // Together more than all commands of the process may be ahead of JavaScript.
    const [silent, bytes] = [220, 262_144];
    const printed = Buffer.concat([STREAM_HEAD, chunk(lines(...Array.from({ length: 8 }, (_, n) => data(n + 1, "x".repeat(bytes / 8)))))]);
    const endpoint = await startEndpoint({
      connect: (exchange) => (exchange.count <= silent ? exchange.raw(printed) : exchange.stream(data(1, "y".repeat(bytes)), exit(0))),
    }, { t });
    const environment = new Environment(endpoint);
    const client = environment.client();
    const controller = new AbortController();
    const quiet = [];
    await Promise.all(Array.from({ length: silent }, () => new Promise((resolve) => {
      let units = 0;
      const log = (_stream, text) => (units += text.length) === bytes && resolve();
      quiet.push(assert.rejects(execute(client, environment.params(), controller.signal, log)));
    })));
    const { stdout } = await execute(client, environment.params(), null, () => {});
    assert.equal(stdout.length, bytes);
    controller.abort();
    await Promise.all(quiet);
  });
});
