// The calls about sandboxes themselves.
import { Failure } from "../failure.mjs";
import { environment, wholeNumber } from "../request.mjs";

/** @typedef {import("./index.mjs").Call} Call */

/** @param {Call} call */
export function create({ sandboxes, body, success }) {
  if (typeof body.shape !== "string" || body.shape === "") throw new Failure(400, "shape must be a non-empty string");
  for (const name of ["rootfs", "region", "name"]) {
    if (body[name] !== undefined && typeof body[name] !== "string") throw new Failure(400, `${name} must be a string`);
  }
  environment(body.envs ?? body.env);
  success(sandboxes.create(body).view);
}

/** @param {Call} call */
export function list({ sandboxes, query, success }) {
  const status = query.get("status");
  const all = sandboxes.all().map(({ view }) => view).filter((view) => status === null || view.status === status);
  const offset = wholeNumber(query, "offset", 0);
  const limit = wholeNumber(query, "limit", all.length);
  success({ data: all.slice(offset, offset + limit), pagination: { total: all.length, limit, offset } });
}

/** @param {Call} call */
export function get({ sandboxes, ids, success }) {
  success(sandboxes.get(ids[0], { destroyed: true }).view);
}

/** @param {Call} call */
export async function destroy({ sandboxes, ids, success }) {
  const sandbox = sandboxes.get(ids[0]);
  await sandboxes.destroy(sandbox);
  success({ id: sandbox.id, status: sandbox.status });
}

/** @param {Call} call */
export function pause({ sandboxes, ids, success }) {
  const sandbox = sandboxes.get(ids[0]);
  sandbox.pause();
  success(sandbox.view, 202);
}

/** @param {Call} call */
export function resume({ sandboxes, ids, success }) {
  const sandbox = sandboxes.get(ids[0]);
  sandbox.resume();
  success(sandbox.view, 202);
}

/** @param {Call} call */
export function egress({ sandboxes, ids }) {
  sandboxes.get(ids[0]);
  throw new Failure(501, "the emulator does not filter outbound connections");
}
