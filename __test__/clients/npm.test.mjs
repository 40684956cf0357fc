// The emulator, used by the endpoint's public client for TypeScript. That client knows no managed processes.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { it } from "node:test";
import {
  CreateosSandboxAuthError, CreateosSandboxClient, CreateosSandboxNotFoundError, CreateosSandboxValidationError,
} from "@nodeops-createos/sandbox";
import { startEmulator } from "createos-native/emulator";

const SHAPE = { shape: "s-1vcpu-1gb" };
const POLL = { intervalMs: 20 };

async function connect(t) {
  const emulator = await startEmulator();
  t.after(() => emulator.close());
  return new CreateosSandboxClient({ baseUrl: emulator.url, apiKey: emulator.key });
}

it("makes, lists, pauses, resumes and destroys sandboxes for the TypeScript client", async (t) => {
  const client = await connect(t);
  const sandbox = await client.createSandbox({ ...SHAPE, name: "one", envs: { TOLD: "once" } });
  assert.deepEqual([sandbox.status, sandbox.name], ["running", "one"]);
  assert.deepEqual((await client.listSandboxes()).map(({ id }) => id), [sandbox.id]);
  assert.equal((await sandbox.sh("echo $TOLD")).result.stdout, "once\n");

  await sandbox.pause();
  await sandbox.waitUntilPaused(POLL);
  await assert.rejects(sandbox.runCommand("true"), CreateosSandboxValidationError);
  await sandbox.resume();
  await sandbox.waitUntilRunning(POLL);
  assert.equal((await (await client.getSandbox(sandbox.id)).runCommand("echo", ["awake"])).result.stdout, "awake\n");

  await sandbox.destroy();
  await sandbox.waitUntilDestroyed(POLL);
  await assert.rejects(client.getSandbox("sb-unknown"), CreateosSandboxNotFoundError);
});

it("runs commands for the TypeScript client, buffered and streamed", async (t) => {
  const sandbox = await (await connect(t)).createSandbox(SHAPE);
  const { result, exec_ms: took } = await sandbox.runCommand("bash", ["-c", "echo out; echo err >&2; exit 7"]);
  assert.deepEqual(result, { exit_code: 7, stdout: "out\n", stderr: "err\n" });
  assert.equal(typeof took, "number");
  await assert.rejects(sandbox.sh("echo told >&2; exit 3", { label: "step" }), /step.*3[^]*told/);

  const events = [];
  for await (const event of sandbox.streamCommand("bash", ["-c", "echo out; echo err >&2; exit 7"])) events.push(event);
  const dataOf = (type) => events.filter((event) => event.type === type).map(({ data }) => data).join("");
  assert.deepEqual([dataOf("stdout"), dataOf("stderr")], ["out\n", "err\n"]);
  assert.deepEqual(events.at(-1), { type: "exit", exitCode: 7 });
});

it("keeps files for the TypeScript client byte for byte", async (t) => {
  const sandbox = await (await connect(t)).createSandbox(SHAPE);
  const bytes = randomBytes(3 << 20);
  const file = "/paperclip-workspace/a folder/ü+&?.bin";
  await sandbox.files.upload(file, bytes);
  assert.ok(bytes.equals(Buffer.from(await sandbox.files.download(file))));
  assert.equal((await sandbox.runCommand("stat", ["-c", "%s", file])).result.stdout, `${bytes.length}\n`);
  await assert.rejects(sandbox.files.download("/paperclip-workspace/none"), CreateosSandboxNotFoundError);
});

it("refuses the TypeScript client another key", async (t) => {
  const emulator = await startEmulator();
  t.after(() => emulator.close());
  const stranger = new CreateosSandboxClient({ baseUrl: emulator.url, apiKey: "another" });
  await assert.rejects(stranger.createSandbox(SHAPE), CreateosSandboxAuthError);
});
