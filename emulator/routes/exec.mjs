// One-shot commands: run to the leader's end, the output in the answer, buffered or as a stream of lines. A caller that
// leaves takes the command with it; daemons of a command that has ended stay in the sandbox.
import { StringDecoder } from "node:string_decoder";
import { Command } from "../command.mjs";
import { Failure } from "../failure.mjs";
import { commandOf } from "../request.mjs";
import { newId } from "../sandbox.mjs";
import { signalExitCode } from "../signals.mjs";
import { terminateTree } from "../terminate.mjs";

/** Bytes of each stream that a buffered answer holds; what comes after is dropped. */
const BUFFERED_BYTES = 64 * 1024 * 1024;

/** @param {import("./index.mjs").Call} call */
export async function exec(call) {
  const { sandboxes, surroundings, ids, query, body, out } = call;
  const sandbox = sandboxes.get(ids[0]);
  const request = commandOf(body);
  if (body.stdin !== undefined && typeof body.stdin !== "string") throw new Failure(400, "stdin must be a string");
  const streaming = query.get("stream") === "true" || body.stream === true;
  const began = surroundings.clock.now();
  const output = streaming ? new Streamed(out, surroundings) : new Buffered();
  let ended;
  const exit = new Promise((resolve) => (ended = resolve));
  const command = await sandbox.launch(request, ({ root, cwd, env }) => Command.start({
    ...surroundings, root, id: newId("exec"), argv: [request.cmd, ...request.args], cwd, env,
    onOutput: (stream, chunk) => output.add(stream, chunk), onExit: ended,
  }));
  sandbox.commands.add(command);
  out.onClose(() => {
    if (command.exit === null) terminateTree(command, 0, surroundings.clock);
  });
  if (out.closed) terminateTree(command, 0, surroundings.clock);
  command.stdin.end(body.stdin ?? "");
  output.begin(command);
  const { code, signal } = await exit;
  // A tree that is gone needs no looking after; one that is left is the sandbox's until its end.
  command.treeExited().then((gone) => gone && sandbox.commands.delete(command));
  const exitCode = signal ? signalExitCode(signal) : code;
  if (streaming) output.end(exitCode);
  else call.success({ result: { exit_code: exitCode, ...output.text() }, exec_ms: Math.round(surroundings.clock.now() - began) });
}

class Buffered {
  #chunks = { stdout: [], stderr: [] };
  #bytes = { stdout: 0, stderr: 0 };

  begin() {}

  add(stream, chunk) {
    if ((this.#bytes[stream] += chunk.length) <= BUFFERED_BYTES) this.#chunks[stream].push(chunk);
  }

  text() {
    const { stdout, stderr } = this.#chunks;
    return { stdout: Buffer.concat(stdout).toString("utf8"), stderr: Buffer.concat(stderr).toString("utf8") };
  }
}

/** The lines `{stdout}`, `{stderr}`, `{hb:true}`, `{exit_code}`; characters are kept whole. */
class Streamed {
  #out;
  #decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  #surroundings;
  #command = null;
  #waiting = [];
  #timer = null;

  constructor(out, surroundings) {
    this.#out = out;
    this.#surroundings = surroundings;
  }

  /** The command runs: from now on an answer other than the stream is out of the question. */
  begin(command) {
    this.#command = command;
    this.#out.head(200, { "content-type": "application/x-ndjson" });
    this.#out.onDrain(() => command.resume());
    this.#out.onClose(() => this.#surroundings.clock.clearTimeout(this.#timer));
    for (const line of this.#waiting.splice(0)) this.#send(line);
    this.#beat();
  }

  add(stream, chunk) {
    const text = this.#decoders[stream].write(chunk);
    if (text !== "") this.#send({ [stream]: text });
  }

  #send(line) {
    if (this.#command === null) return void this.#waiting.push(line);
    // There is no journal here: the command waits for its only reader.
    if (!this.#out.write(Buffer.from(`${JSON.stringify(line)}\n`))) this.#command.pause();
    this.#beat();
  }

  #beat() {
    const { clock, heartbeatMs } = this.#surroundings;
    clock.clearTimeout(this.#timer);
    if (!this.#out.closed) this.#timer = clock.setTimeout(() => this.#send({ hb: true }), heartbeatMs);
  }

  end(exitCode) {
    for (const [stream, decoder] of Object.entries(this.#decoders)) {
      const rest = decoder.end();
      if (rest !== "") this.#send({ [stream]: rest });
    }
    this.#send({ exit_code: exitCode });
    this.#surroundings.clock.clearTimeout(this.#timer);
    this.#out.end();
  }
}
