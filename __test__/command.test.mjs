// Real commands, run by real shells: what they get, what they print, how they end.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { bash, recorder } from "./support/environment.mjs";
import { emulatorForFile } from "./support/sandbox.mjs";

describe("real commands", async () => {
  const host = await emulatorForFile();
  const sandbox = await host.sandbox();

  test("a command's result holds its output of both streams, its exit code and its process", async () => {
    const log = recorder();
    const result = await sandbox.run(bash("echo out; echo err >&2; exit 3"), { log });
    const { processId } = result.metadata;
    assert.deepEqual(result, {
      exitCode: 3, signal: null, timedOut: false, stdout: "out\n", stderr: "err\n", metadata: { processId, outputTruncated: false },
    });
    assert.match(processId, /^proc_/);
    assert.deepEqual([log.text("stdout"), log.text("stderr")], ["out\n", "err\n"]);
  });

  test("every line of `seq 1 100000` arrives, live and in the result", async () => {
    const log = recorder();
    const { stdout, exitCode } = await sandbox.run({ command: "seq", args: ["1", "100000"] }, { log });
    const expected = Array.from({ length: 100_000 }, (_, i) => `${i + 1}\n`).join("");
    assert.equal(exitCode, 0);
    assert.ok(stdout === expected, "the result is complete");
    assert.ok(log.text("stdout") === expected, "the log is complete");
  });

  for (const code of [0, 1, 2, 126, 127, 128, 137, 255]) {
    test(`exit code ${code} is passed on`, async () => {
      const result = await sandbox.run(bash(`exit ${code}`));
      assert.deepEqual([result.exitCode, result.signal, result.timedOut], [code, null, false]);
    });
  }

  for (const signal of ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1"]) {
    test(`death by ${signal} is passed on by name`, async () => {
      const result = await sandbox.run(bash(`echo last words; kill -${signal.slice(3)} $$; sleep 60`));
      assert.deepEqual([result.exitCode, result.signal, result.timedOut, result.stdout], [null, signal, false, "last words\n"]);
    });
  }

  test("a program that does not exist is env's exit code 127 and its message", async () => {
    const result = await sandbox.run({ command: "no-such-program" });
    assert.equal(result.exitCode, 127);
    assert.match(result.stderr, /no-such-program/);
  });

  for (const [what, stdin] of [
    ["text", "one\ntwo"],
    ["nothing, as an empty file", ""],
    ["text beyond ASCII", "ä\u{1f600}\u2028 \\ ' \" $HOME\0\r\n"],
    ["3 MB", "0123456789abcde\n".repeat(200_000)],
  ]) {
    test(`standard input is ${what}`, async () => {
      const { stdout, exitCode } = await sandbox.run({ ...bash("wc -c; stat -Lc %F /dev/stdin"), stdin });
      assert.deepEqual(stdout.trim().split(/\s+/), [String(Buffer.byteLength(stdin)), "regular", ...(stdin ? [] : ["empty"]), "file"]);
      assert.equal(exitCode, 0);
      const echoed = await sandbox.run({ command: "cat", stdin });
      assert.ok(echoed.stdout === stdin, "what was passed is what the command reads");
    });
  }

  test("without standard input a command reads end of file at once", async () => {
    const { stdout, exitCode } = await sandbox.run(bash("cat; echo done"));
    assert.deepEqual([stdout, exitCode], ["done\n", 0]);
  });

  test("the staged file of standard input is gone afterwards", async () => {
    const { stdout } = await sandbox.run({ command: "readlink", args: ["/proc/self/fd/0"], stdin: "x" });
    assert.match(stdout, /^\/tmp\/paperclip-stdin-[0-9a-f-]{36}\n$/);
    assert.equal((await sandbox.run(bash("ls /tmp/ | grep -c paperclip-"))).stdout, "0\n");
  });

  test("the environment has what was passed, to the byte, besides what the sandbox has", async () => {
    const env = { PLAIN: "1", _: "underscore", EMPTY: "", Quote_9: `a'b"c$d\`e\\`, LINES: "a\n\nb\n", UNICODE: "ä\u{1f600}", EQUALS: "a=b=c" };
    const { stdout } = await sandbox.run({ command: "env", args: ["-0"], env });
    const seen = Object.fromEntries(stdout.split("\0").filter(Boolean).map((entry) => [entry.slice(0, entry.indexOf("=")), entry.slice(entry.indexOf("=") + 1)]));
    // `env` sets `_` itself or not, as the shell before it does.
    for (const [name, value] of Object.entries(env)) if (name !== "_") assert.equal(seen[name], value, name);
    assert.ok(seen.PATH);
  });

  for (const cwd of ["/usr", "/tmp/with space", "/tmp/quote's \"and\" $dollar", "/tmp/-dash", "/tmp/ends in backslash\\", "/tmp/neu\nzeile", "/tmp/ü"]) {
    test(`a command runs in ${JSON.stringify(cwd)}`, async () => {
      await sandbox.run({ command: "mkdir", args: ["-p", "--", cwd] });
      const { stdout } = await sandbox.run({ command: "pwd", cwd });
      assert.equal(stdout, `${cwd}\n`);
    });
  }

  test("a working directory that does not exist is the endpoint's refusal", async () => {
    await assert.rejects(sandbox.run({ command: "pwd", cwd: "/missing" }), {
      name: "CreateosApiError", status: 400, message: "CreateOS request failed (HTTP 400) during process creation.",
    });
  });

  const ASCII = Array.from({ length: 127 }, (_, i) => String.fromCharCode(i + 1)).join("");
  const AWKWARD = [
    ASCII, [...ASCII].reverse().join(""), "", " ", "'", "''", "'''", "\\", "\\\\", "ends in backslash\\", "ends in newline\n", "\n\n\n", "\n", "\r\n", "\t",
    "$HOME ${PATH} $(id) `id` $((1+1))", "!history", "*", "~", "{a,b}", "-n", "--", "a=b", "#", "&& exit", "; exit", "|", ">", "<(id)", "%s", "\\n\\x41\\",
    "ä", "日本語", "\u{1f600}\u{1f468}\u200d\u{1f469}", "e\u0301", "\u202e", "\u2028\u2029", "\ufeff", "\ufffd", "\u{10ffff}", "\x7f\x80\x9f",
    "x".repeat(30_000),
  ];
  test("every argument reaches the program byte for byte through a real shell", async () => {
    const { stdout } = await sandbox.run({ command: "printf", args: ["%s\\0", ...AWKWARD] });
    assert.deepEqual(stdout.split("\0").slice(0, -1), AWKWARD);
  });

  for (const [i, word] of AWKWARD.entries()) {
    if (word === "") continue;
    test(`an argument alone is not read as shell syntax, number ${i}: ${JSON.stringify(word.slice(0, 40))}`, async () => {
      // In hexadecimal, so that nothing on the way back can hide a difference.
      const { stdout } = await sandbox.run({ command: "bash", args: ["-c", 'printf %s "$1" | od -An -v -tx1 | tr -d " \\n"', "bash", word] });
      assert.equal(stdout, Buffer.from(word).toString("hex"));
    });
  }

  test("lone surrogates become U+FFFD", async () => {
    const { stdout } = await sandbox.run({ command: "printf", args: ["%s", "a\ud800b\udc00\ud83d"], env: { E: "\udfff" } });
    assert.equal(stdout, "a\ufffdb\ufffd\ufffd");
  });

  test("the command itself may be any text", async () => {
    const program = "/tmp/it's a \"program\" $x";
    await sandbox.run(bash('printf "#!/bin/sh\\necho ran\\n" > "$1"; chmod +x "$1"', program));
    assert.equal((await sandbox.run({ command: program })).stdout, "ran\n");
  });

  test("a daemon that keeps the pipe open does not hold the result up", async () => {
    const result = await sandbox.run(bash("sleep 300 & echo started"));
    assert.deepEqual([result.stdout, result.exitCode], ["started\n", 0]);
  });

  test("a hundred commands side by side each get their own output", async () => {
    const client = sandbox.client();
    const { execute } = await import("./support/package.mjs");
    const results = await Promise.all(Array.from({ length: 100 }, (_, i) => execute(client, sandbox.params(bash('echo "$1"; echo "-$1" >&2', String(i))))));
    assert.deepEqual(results.map(({ stdout, stderr }) => [stdout, stderr]), Array.from({ length: 100 }, (_, i) => [`${i}\n`, `-${i}\n`]));
  });
});
