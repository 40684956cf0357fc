// The calls about managed processes.
import { Reader } from "../connect.mjs";
import { Failure } from "../failure.mjs";
import { commandOf, wholeNumber } from "../request.mjs";
import { isSignal } from "../signals.mjs";

/** Bytes of one input call. */
const INPUT_BYTES = 256 * 1024;
const WAIT_MS = 30_000;
const MAX_WAIT_MS = 300_000;
const GRACE_MS = 1_000;
const MAX_GRACE_MS = 60_000;

/** @typedef {import("./index.mjs").Call} Call */

/** @param {Call} call */
function find({ sandboxes, ids }) {
  const process = sandboxes.get(ids[0]).processes.get(ids[1]);
  if (!process) throw new Failure(404, "no such process");
  return process;
}

/** @param {Call} call */
export async function create({ sandboxes, ids, body, success }) {
  const sandbox = sandboxes.get(ids[0]);
  const request = commandOf(body);
  if (body.pty !== undefined) throw new Failure(501, "the emulator has no terminals");
  success(await (await sandbox.createProcess(request)).view());
}

/** @param {Call} call */
export async function list({ sandboxes, ids, success }) {
  const processes = [...sandboxes.get(ids[0]).processes.values()];
  success({ processes: await Promise.all(processes.map((process) => process.view())) });
}

/** @param {Call} call */
export async function get(call) {
  call.success(await find(call).view());
}

/** @param {Call} call */
export async function closeInput(call) {
  await call.sandboxes.get(call.ids[0]).requireRunning();
  find(call).closeInput();
  call.success({});
}

/** @param {Call} call */
export async function input(call) {
  await call.sandboxes.get(call.ids[0]).requireRunning();
  const text = call.body.data_base64;
  if (typeof text !== "string" || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) throw new Failure(400, "data_base64 must be base64");
  const bytes = Buffer.from(text, "base64");
  if (bytes.length > INPUT_BYTES) throw new Failure(413, `at most ${INPUT_BYTES} bytes a call`);
  call.success({ input_seq: find(call).input(bytes) });
}

/** @param {Call} call */
export async function signal(call) {
  await call.sandboxes.get(call.ids[0]).requireRunning();
  if (!isSignal(call.body.signal)) throw new Failure(400, "unknown signal");
  find(call).signal(call.body.signal);
  call.success({});
}

/** @param {Call} call */
export function resize(call) {
  find(call);
  throw new Failure(501, "the emulator has no terminals");
}

/** @param {Call} call */
export function connect(call) {
  const process = find(call);
  const after = wholeNumber(call.query, "after", 0);
  const { oldest } = process.journal;
  if (after + 1 < oldest) throw new Failure(410, "output_offset_expired", { oldest_available_seq: oldest });
  new Reader(process, after, call.out, call.surroundings);
}

/** @param {Call} call */
export async function wait(call) {
  const process = find(call);
  const scope = call.query.get("scope") ?? "leader";
  if (scope !== "leader" && scope !== "tree") throw new Failure(400, "scope must be leader or tree");
  const { clock } = call.surroundings;
  const over = new AbortController();
  const timer = clock.setTimeout(() => over.abort(), wholeNumber(call.query, "timeout_ms", WAIT_MS, MAX_WAIT_MS));
  call.out.onClose(() => over.abort());
  await process.waitFor(scope, over.signal);
  clock.clearTimeout(timer);
  const view = await process.view();
  if (scope === "tree" ? !view.tree_exited : !view.leader_exited) throw new Failure(408, "still running");
  call.success(view);
}

/** @param {Call} call */
export async function terminate(call) {
  const process = find(call);
  const exited = await process.terminate(wholeNumber(call.query, "grace_ms", GRACE_MS, MAX_GRACE_MS));
  const view = await process.view();
  if (exited) call.sandboxes.get(call.ids[0]).processes.delete(process.id);
  call.success({ ...view, tree_exited: exited });
}
