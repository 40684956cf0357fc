// The scenes of the tour. Each runs real commands through the addon, shows what happens, and checks it against something
// that the addon has no part in: what the command must have printed, what the endpoint says, which processes there are.

import { CreateosError } from "../../index.js";

/** @typedef {import("./tour.mjs").Stage} Stage */
/** @typedef {import("../../index.js").ExecuteParams} ExecuteParams */

/** A file by which the demo answers the command that waits for it. */
const ANSWER = "/tmp/createos-native-demo-answer";

/**
 * Runs a script of bash. Gives the result and what the log got of each stream.
 * @param {Stage} stage
 * @param {string} script
 * @param {{timeoutMs?: number, onOutput?: (stream: "stdout" | "stderr", text: string) => void}} [options]
 */
async function runScript({ provider, params, signal }, script, { timeoutMs, onOutput } = {}) {
  const logged = { stdout: "", stderr: "" };
  const result = await provider.execute({ ...params, command: "bash", args: ["-c", script], timeoutMs }, (stream, text) => {
    logged[stream] += text;
    onOutput?.(stream, text);
  }, signal);
  return { result, logged };
}

/** A command that goes on only when its output was seen: were the output not live, it would wait for ever. @param {Stage} stage */
export async function liveOutput(stage) {
  const { report, endpoint, sandbox } = stage;
  const startedAt = performance.now();
  /** @type {Promise<unknown> | undefined} */
  let answered;
  const script = `
    echo "What is the answer?"
    until [ -s ${ANSWER} ]; do sleep 0.05; done
    echo "It is $(cat ${ANSWER})."
    echo "There is also a second stream." >&2
    exit 7`;
  const { result, logged } = await runScript(stage, script, {
    timeoutMs: 60_000,
    onOutput(stream, text) {
      report.output(startedAt, stream, text);
      answered ??= endpoint.call("PUT", `/sandboxes/${sandbox}/files?path=${encodeURIComponent(ANSWER)}`, "42");
    },
  });
  await answered;
  report.check(logged.stdout === "What is the answer?\nIt is 42.\n", "the command's question was answered while it ran");
  report.check(logged.stderr === "There is also a second stream.\n", "the second stream came as well", JSON.stringify(logged.stderr));
  report.check(logged.stdout === result.stdout && logged.stderr === result.stderr, "the result says what the live log said");
  report.check(result.exitCode === 7, "the exit code is the command's: 7", String(result.exitCode));
}

/** Output that is cut in the middle of a frame, first by a clean end, then by a reset. @param {Stage} stage */
export async function cutConnection(stage) {
  const { report, endpoint, interference } = stage;
  if (!endpoint.emulator) {
    report.skip("cutting a connection takes a hook of the emulator");
    return;
  }
  const lines = Array.from({ length: 100_000 }, (_, i) => String(i + 1));
  const expected = `${lines.join("\n")}\n`;
  const before = endpoint.emulator.requests.length;
  // All of it fits into the endpoint's journal: what a connection loses can be had from the next.
  interference.plan({ cutAfter: 300_000, how: "end" }, { cutAfter: 200_000, how: "reset" });
  const { result, logged } = await runScript(stage, `seq 1 ${lines.length}`, { timeoutMs: 120_000 });

  const after = endpoint.emulator.requests.slice(before)
    .filter(({ route }) => route === "connect")
    .map(({ path }) => Number(new URL(path, "http://emulator").searchParams.get("after")));
  report.line(`connections, each asking for what comes after frame: ${after.join(", ")}`);
  report.check(interference.pending === 0 && after.length >= 3, "two connections were cut, so there were three", String(after.length));
  report.check(after[1] > 0, `the second went on after frame ${after[1]}`, `after ${after[1]}`);
  const seen = logged.stdout.split("\n").filter(Boolean);
  const missing = lines.length - new Set(seen).size;
  report.check(logged.stdout === expected, `all ${lines.length} lines came live, in order, none lost and none twice`,
    `${seen.length} lines, ${missing} missing`);
  report.check(result.stdout === expected && result.exitCode === 0, `the result holds the same ${expected.length} characters`,
    `${result.stdout.length} characters`);
}

/** A command with a child, and a grandchild in a session of its own, that has to be ended. @param {Stage} stage */
export async function timeout(stage) {
  const { report, endpoint, sandbox } = stage;
  const startedAt = performance.now();
  /** @type {Promise<string[]> | undefined} */
  let before;
  // A zombie (Z) has ended; it is what is left of a process until its parent looks.
  const living = async (/** @type {string[]} */ pids) => {
    const { result } = await runScript(stage, `
      for pid in ${pids.join(" ")}; do
        read -r _ state 2>/dev/null < <(grep State: /proc/$pid/status 2>/dev/null) && [[ $state != Z* ]] && echo $pid
      done
      true`);
    return result.stdout.split("\n").filter(Boolean);
  };
  const script = `
    sleep 600 &
    child=$!
    setsid --fork bash -c 'echo $$ > /tmp/createos-native-demo-pid; exec sleep 600'
    until [ -s /tmp/createos-native-demo-pid ]; do sleep 0.05; done
    echo "processes: $$ $child $(cat /tmp/createos-native-demo-pid)"
    wait`;
  let printed = "";
  const { result } = await runScript(stage, script, {
    timeoutMs: endpoint.emulator ? 5_000 : 10_000,
    onOutput(stream, text) {
      report.output(startedAt, stream, text);
      printed += text;
      const pids = /^processes: (\d+) (\d+) (\d+)\n/.exec(printed)?.slice(1);
      if (pids) before ??= living(pids);
    },
  });
  const pids = /^processes: (.*)\n/.exec(result.stdout)?.[1].split(" ") ?? [];
  report.line(`ended after ${((performance.now() - startedAt) / 1000).toFixed(2)} s`);
  report.check(result.timedOut && result.exitCode === null, "the result says that the deadline came first");
  report.check(pids.length === 3, "it holds what was printed until then", JSON.stringify(result.stdout));
  const was = (await before) ?? [];
  report.check(was.length === 3, "until then three processes were running", String(was.length));
  // An endpoint may forget a process that was terminated, or list it as ended.
  const entry = await endpoint.processOf(sandbox, result.metadata.processId);
  report.check(entry === null || entry.tree_exited === true, "the endpoint's list has no such process any more, or says that its tree has ended",
    String(entry?.state));
  const left = pids.length > 0 ? await living(pids) : [];
  report.check(pids.length > 0 && left.length === 0, "none of the three is left in the sandbox", left.join(" "));
}

/** A lease that is given back while a command runs on it: kept first, deleted afterwards. @param {Stage} stage */
export async function releaseLease(stage) {
  const { report, endpoint, provider, sandbox, params } = stage;
  const { lease, ...scope } = params;
  const give = { ...scope, providerLeaseId: sandbox, leaseMetadata: lease.metadata };
  /** @type {(value?: unknown) => void} */
  let started = () => {};
  const running = new Promise((resolve) => (started = resolve));
  const command = runScript(stage, "echo started; exec sleep 600", { timeoutMs: 300_000, onOutput: started })
    .then(() => null, (error) => error);
  await Promise.race([running, command]);
  await provider.release({ ...give, config: { ...give.config, reuseLease: true } }, false);
  const error = await command;
  report.check(error instanceof CreateosError && error.message === "CreateOS command was cancelled.",
    "the running command was told that it is cancelled", error instanceof Error ? error.name : "a result");
  report.check(error?.output?.stdout === "started\n", "its error holds what it had printed");
  const paused = await endpoint.stateOf(sandbox);
  report.check(paused === "paused", "the endpoint says that the sandbox is paused, to be used again", paused);
  await provider.release(give, true);
  const gone = await endpoint.stateOf(sandbox);
  report.check(gone === "destroyed" || gone === "destroying", "after a release with destroy it is deleted", gone);
}
