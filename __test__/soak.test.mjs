// Command after command, many of them with trouble: nothing of an ended one is left in the process, be it memory, a
// callback, a socket or an entry in a registry. In a program of its own, whose memory nobody else uses.
import assert from "node:assert/strict";
import { readdirSync, readlinkSync } from "node:fs";
import { test } from "node:test";
import { data, exit, HEALTHY, startEndpoint } from "./support/endpoint.mjs";
import { startProgram } from "./support/program.mjs";
import { until } from "./support/sandbox.mjs";
import { SOAK } from "./support/soak.mjs";

const EXECUTIONS = SOAK ? 20_000 : 1_000;
/** How many of them run at a time. */
const LANES = 16;

/** What happens to a command, by its lease. Of twenty, ten are cut, two aborted, and two not created. */
const HANDLERS = {
  create: (exchange) => {
    if (exchange.path.includes("sb_refused")) return exchange.fail(418);
    if (exchange.path.includes("sb_lost")) return exchange.reset();
    return HEALTHY.create(exchange);
  },
  connect: async (exchange) => {
    if (exchange.query.after === "2") return exchange.stream(data(3, "end"), exit(7));
    await exchange.head();
    await exchange.frames(data(1, "begin "), data(2, "middle "));
    if (exchange.path.includes("sb_cut_by_reset")) return setImmediate(() => exchange.reset());
    if (exchange.path.includes("sb_cut_by_an_end")) return exchange.fin();
    if (exchange.path.includes("sb_aborted")) return exchange.gone();
    await exchange.frames(data(3, "end"), exit(7));
    await exchange.end();
  },
};

const PROGRAM = `
  import assert from "node:assert/strict";
  import { setImmediate as turn } from "node:timers/promises";
  const KINDS = [
    ...Array(5).fill("sb_cut_by_reset"), ...Array(5).fill("sb_cut_by_an_end"), ...Array(2).fill("sb_aborted"), "sb_refused", "sb_lost",
    ...Array(6).fill("sb_whole"),
  ];
  const total = Number(process.env.EXECUTIONS);
  const provider = environment.provider({ reconnect: { delayMs: 0 } });
  const quick = environment.client({ reconnect: { delayMs: 0 } });
  let alive = 0;
  const collected = new FinalizationRegistry(() => alive--);

  async function one(i) {
    const kind = KINDS[i % KINDS.length];
    const controller = new AbortController();
    const captured = Buffer.alloc(100_000, i);
    let text = "";
    const log = (stream, chunk) => {
      text += chunk + captured.subarray(0, 0);
      if (kind === "sb_aborted" && text.includes("middle")) controller.abort();
    };
    alive++;
    collected.register(log);
    const params = { ...environment.params(), lease: { providerLeaseId: kind, metadata: environment.metadata } };
    // A creation that nobody can confirm would close its lease to the provider.
    const run = i % 2 && kind !== "sb_lost" ? provider.execute(params, log, controller.signal) : addon.execute(quick, params, controller.signal, log);
    const outcome = await run.then(({ stdout, exitCode }) => stdout + exitCode, ({ name, status, message }) => [name, status ?? message].join(": "));
    assert.equal(outcome, {
      sb_refused: "CreateosApiError: 418",
      sb_lost: "CreateosCleanupError: CreateOS process creation could not be confirmed; destroy the lease before reusing it.",
      sb_aborted: "CreateosError: CreateOS command was cancelled.",
    }[kind] ?? "begin middle end7");
    if (kind !== "sb_refused" && kind !== "sb_lost") assert.match(text, /^begin middle (end)?$/);
  }

  const samples = [];
  let started = 0, done = 0;
  const every = total / 20;
  async function lane() {
    while (started < total) {
      await one(started++);
      if (++done % every !== 0) continue;
      gc();
      samples.push(Math.round(process.memoryUsage().rss / 2 ** 20));
    }
  }
  await Promise.all(Array.from({ length: ${LANES} }, lane));
  for (let i = 0; i < 1000 && alive > 0; i++) {
    gc();
    await turn();
  }
  const { details } = await provider.health();
  process.stdout.write(JSON.stringify({ samples, alive, details }) + "\\n");
  // The test looks at what is still open, and then ends this.
  setInterval(() => {}, 1000);`;

/** The sockets that a process has open, its standard streams apart. */
const sockets = (pid) => readdirSync(`/proc/${pid}/fd`).filter((fd) => {
  try {
    return Number(fd) > 2 && readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith("socket:");
  } catch {
    return false; // Closed meanwhile.
  }
}).length;

test(`after ${EXECUTIONS} commands, half of them cut, there is nothing left of any`, { skip: process.platform !== "linux" && "sockets are counted by /proc" }, async (t) => {
  const endpoint = await startEndpoint(HANDLERS, { t });
  // The endpoint is to be no soak of its own.
  const create = endpoint.handlers.create;
  endpoint.handlers = { ...HANDLERS, create: (exchange) => (exchange.count % 1000 === 0 ? endpoint.requests.splice(0) : 0, create(exchange)) };
  const begun = performance.now();
  const { child, exited, printed } = startProgram(PROGRAM, endpoint, { flags: ["--expose-gc"], env: { EXECUTIONS } });
  t.after(() => child.kill("SIGKILL"));
  const { samples, alive, details } = JSON.parse(await printed("\n"));
  const seconds = (performance.now() - begun) / 1000;

  assert.equal(alive, 0, "every log callback is collected");
  assert.deepEqual(details, { running: 0, unconfirmed: 0 });
  const [warm, last] = [samples[samples.length / 4], Math.max(...samples.slice(-3))];
  const open = sockets(child.pid);
  t.diagnostic(`${EXECUTIONS} commands in ${seconds.toFixed(0)} s; MiB of memory, twenty times: ${samples.join(" ")}; then ${open} sockets`);
  assert.ok(last - warm < 32, `${last - warm} MiB more`);
  // Idle connections are kept for the next request, and no longer than half a minute.
  assert.ok(open <= 2 * LANES, `${open} sockets`);
  if (SOAK) await until(() => sockets(child.pid) === 0, "there were sockets");
  child.kill();
  assert.equal((await exited).stderr, "");
});
