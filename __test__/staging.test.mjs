// What no argument of bash can carry, or should: scripts that are staged as files, and programs with odd names.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import { bash } from "./support/environment.mjs";
import { emulatorForFile } from "./support/sandbox.mjs";

const SECRET_VALUE = "value-that-nobody-else-may-see";

describe("staged scripts and odd names", async () => {
  const host = await emulatorForFile();
  const sandbox = await host.sandbox();
  const staged = async () => (await sandbox.run(bash("ls /tmp"))).stdout.split("\n").filter((name) => name.startsWith("paperclip-"));
  const created = () => sandbox.requests("create").map(({ body }) => JSON.parse(body)).at(-1);

  test("a mebibyte of arguments and environment arrives, by a script that is staged and removed", async () => {
    const args = Array.from({ length: 6 }, (_, i) => String(i).repeat(120_000));
    const env = Object.fromEntries(["A", "B", "C"].map((name) => [name, name.repeat(120_000)]));
    const { stdout, exitCode } = await sandbox.run({
      ...bash('printf "%s\\n" "$#" "${#A}${#B}${#C}"; printf "%s" "$@" | md5sum', ...args), env,
    });
    const digest = createHash("md5").update(args.join("")).digest("hex");
    assert.deepEqual([exitCode, stdout], [0, `6\n120000120000120000\n${digest}  -\n`]);
    assert.deepEqual(created().args.slice(0, -1), ["-l"]);
    assert.match(created().args.at(-1), /^\/tmp\/paperclip-script-[0-9a-f-]{36}$/);
    assert.deepEqual(await staged(), []);
  });

  test("standard input and script are both staged, and both removed, also after a timeout", async () => {
    const wide = { ...bash("cat; exec sleep 600", "x".repeat(100_000)), stdin: "in\n", timeoutMs: 500 };
    const { timedOut, stdout } = await sandbox.run(wide);
    assert.deepEqual([timedOut, stdout, await staged()], [true, "in\n", []]);
  });

  test("a value of 128 KiB is refused before any request", async () => {
    const before = sandbox.requests().length;
    for (const params of [
      { command: "echo", args: ["x".repeat(131_072)] },
      { command: "echo", args: ["€".repeat(43_691)] },
      { command: "echo", env: { A: "x".repeat(131_070) } },
    ]) {
      await assert.rejects(sandbox.run(params), { name: "CreateosError", message: "Sandbox command values must be shorter than 128 KiB." });
    }
    assert.equal(sandbox.requests().length, before);
  });

  test("with stageScript always no value of the environment is anybody's argument", async () => {
    const { stdout } = await sandbox.run({
      ...bash('cat /proc/[0-9]*/cmdline | tr "\\0" " "; echo; printenv TOKEN'), env: { TOKEN: SECRET_VALUE },
    }, { stageScript: "always" });
    const [everybody, token] = stdout.trimEnd().split("\n").slice(-2);
    assert.equal(token, SECRET_VALUE);
    assert.match(everybody, /printenv TOKEN/);
    assert.ok(!everybody.includes(SECRET_VALUE));
    assert.ok(!JSON.stringify(created()).includes(SECRET_VALUE));
    assert.deepEqual(await staged(), []);
  });

  test("a program whose name starts with a dash or contains an equals sign is run as that program", async () => {
    await sandbox.run(bash("mkdir -p /paperclip-workspace/bin; for f in -x a=b; do printf '#!/bin/sh\\necho \"$0:$*\"\\n' >/paperclip-workspace/bin/$f; done; chmod +x /paperclip-workspace/bin/*"));
    for (const command of ["-x", "a=b"]) {
      const { stdout, exitCode } = await sandbox.run({ command, args: ["it's", "-c"], env: { PATH: "/paperclip-workspace/bin:/usr/bin:/bin" } });
      assert.deepEqual([exitCode, stdout], [0, `/paperclip-workspace/bin/${command}:it's -c\n`]);
    }
  });

  test("stageScript is large or always", () => {
    for (const stageScript of [true, "Always", null, 1]) {
      assert.throws(() => sandbox.client({ stageScript }), { name: "RangeError", message: /stageScript/ });
    }
  });
});
