/**
 * A CreateOS endpoint for this machine that runs real processes: Linux only, on loopback only. Times are in milliseconds.
 *
 * `@source` says where a fact comes from: `CreateOS`, its HTTP API as `docs/protocol.md` sums it up; `emulator`, a decision of this
 * one, in full in that section of `docs/emulator.md`.
 *
 * @module createos-native/emulator
 */

/**
 * The calls of the API, by the names that hooks and `requests` use. `unknown` is whatever is none of them.
 * @source CreateOS, "Requests"
 */
export type Route =
  | "createSandbox" | "listSandboxes" | "getSandbox" | "destroySandbox" | "pause" | "resume" | "egress"
  | "exec" | "upload" | "download"
  | "create" | "listProcesses" | "getProcess" | "terminate" | "stdinClose" | "input" | "signal" | "resize"
  | "connect" | "wait" | "unknown";

/**
 * A request as it came in.
 * @source emulator, "From a test"
 */
export interface RecordedRequest {
  /** The call that it is. */
  readonly route: Route;
  /** Such as `GET`. */
  readonly method: string;
  /** Path and query, as sent. */
  readonly path: string;
  /** Names in lower case. The API key is among them. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The first 64 KiB of the body. Of an upload it grows while the upload comes in. */
  readonly body: Buffer;
  /** Which request of its route it is, counted from 1 since the start. */
  readonly attempt: number;
}

/**
 * What a hook is told: a recorded request and its query.
 * @source emulator, "Interference"
 */
export interface HookRequest extends RecordedRequest {
  /** By name, decoded; of repeated names the last. */
  readonly query: Readonly<Record<string, string>>;
}

/**
 * What a hook wants done with a request. Members may be combined; an empty object (or `undefined`) changes nothing.
 * The order: the delay; then `hang`, `reset` or `status` instead of the call; else the call is carried out and its
 * answer is lost, transformed or cut.
 * @source emulator, "Interference"
 */
export interface HookAction {
  /** Milliseconds of the emulator's clock to wait before anything else happens. Default 0. */
  delayMs?: number;
  /** Never answers, and does not carry out the call. */
  hang?: boolean;
  /** Resets the connection without an answer, and does not carry out the call. */
  reset?: boolean;
  /** Answers with this HTTP status and does not carry out the call. */
  status?: number;
  /** Headers of that answer. Without `status` they have no effect. */
  headers?: Record<string, string>;
  /** Body of that answer: bytes or text as they are, anything else as JSON. Default empty; without `status` it has no effect. */
  body?: string | Uint8Array | object;
  /** Carries out the call and resets the connection without having sent any answer. */
  lost?: boolean;
  /** Cuts the response after so many bytes of its body (0: after its head). A shorter response is not cut. */
  cutAfter?: number;
  /** How `cutAfter` cuts: by a reset of the connection (default), or by a perfectly clean end. */
  how?: "reset" | "end";
  /**
   * Changes the bytes of the body on their way out; `undefined` drops them. Every line of `connect` and of a streaming
   * `exec`, and the whole of a JSON answer, come as one chunk. It is applied before `cutAfter` counts.
   */
  transform?: (chunk: Buffer) => Uint8Array | string | undefined;
}

/**
 * What of the emulator a test can take a hand in.
 * @source emulator, "Interference"
 */
export interface Hooks {
  /**
   * Called for every request, before rate limit and API key are looked at. May be asynchronous. If it throws or rejects, the
   * connection is closed without an answer and `process.emitWarning` says why.
   */
  request?: (request: HookRequest) => HookAction | undefined | void | Promise<HookAction | undefined | void>;
}

/**
 * The emulator's time.
 * @source emulator, "From a test"
 */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Calls back once, `ms` milliseconds from now; returns what `clearTimeout` takes. */
  setTimeout(callback: () => void, ms: number): unknown;
  /** Takes a call back, also one that was made. */
  clearTimeout(timer: any): void;
}

/**
 * A clock of one's own, or the real one running `speed` times as fast, a number above 0.
 * @source emulator, "From a test"
 */
export type ClockOption = Clock | {
  /** How many milliseconds of its time pass in one real millisecond. */
  speed: number;
};

/**
 * How an emulator is started. Everything is optional.
 * @source emulator, "From a test"
 */
export interface EmulatorOptions {
  /** The port on 127.0.0.1, 0 to 65535. Default 0: a free one. */
  port?: number;
  /** The API key that callers must send as `X-Api-Key`. Default: a random one, to be read from `Emulator.key`. */
  key?: string;
  /**
   * Answers 429 with `Retry-After` (whole seconds of the clock) over so many requests in any window of `perMs`. Default `false`:
   * never. CreateOS' own is `{ requests: 300, perMs: 60_000 }`.
   */
  rateLimit?: false | {
    /** An integer above 0. */
    requests: number;
    /** Milliseconds of the clock, above 0. */
    perMs: number;
  };
  /**
   * Governs the rate limit's window, heartbeats, state changes, `timeout_ms`, `grace_ms` and hook delays. Commands run
   * in real time. Default: the real one.
   */
  clock?: ClockOption;
  /** Interferes with requests and responses. Default: nothing does. */
  hooks?: Hooks;
  /**
   * How sandboxes are kept apart. Default `"auto"`: `"bubblewrap"` where `bwrap` works, else `"namespaces"` by `unshare`,
   * else `"shared"` with a warning. Asking for one that does not work here is an error.
   */
  isolation?: "auto" | "bubblewrap" | "namespaces" | "shared";
  /** How long a change of a sandbox's state takes at least, in ms of the clock. Default: 20. */
  stateDelayMs?: number;
  /** Silence on an output stream after which a heartbeat is sent, in ms of the clock. Default: 15,000. */
  heartbeatMs?: number;
  /**
   * How long a process's output may be left in its pipe for a reader, in real ms: for one that is behind and whose
   * socket is full, and for one that has not connected yet, after the start of the process or the end of the last
   * connection. One that has taken nothing for so long is not waited for any more, and loses what the journal evicts.
   * With 0 no reader is ever waited for. Default: 1,000.
   */
  readerGraceMs?: number;
  /** How many requests `requests` keeps at least, the newest ones. Default: 10,000. */
  keptRequests?: number;
}

/**
 * An emulator that runs.
 * @source emulator, "From a test"
 */
export interface Emulator {
  /** `http://127.0.0.1:PORT`: the `apiUrl` of a client. */
  readonly url: string;
  /** The API key that callers must send. */
  readonly key: string;
  /** How sandboxes are kept apart here. */
  readonly isolation: "bubblewrap" | "namespaces" | "shared";
  /** What a user should know about this host, such as that it cannot isolate sandboxes. Usually empty. */
  readonly warnings: readonly string[];
  /** The requests that came in, oldest first; the newest `keptRequests` for certain. Live: it grows while it is looked at. */
  readonly requests: readonly RecordedRequest[];
  /**
   * Resolves once `count` (default 1) requests of a route have come in since the start; rejects with an `Error` after `timeoutMs`
   * (default 10,000), in real time.
   */
  waitForRequest(route: Route, count?: number, timeoutMs?: number): Promise<void>;
  /**
   * The living processes of all sandboxes, by the numbers that they have on the host (inside a sandbox they have others:
   * `pid` of a process).
   */
  hostPids(): Promise<number[]>;
  /** Kills everything, ends all responses, removes all files; resolves when nothing is left. May be called again. */
  close(): Promise<void>;
}

/**
 * Starts an emulator. It runs, and keeps the program running, until it is closed.
 *
 * Rejects with a `TypeError` for a `clock` or a `rateLimit` that cannot be used, with an `Error` for an `isolation` that does not
 * work here, and with Node.js' own error for a `port` that cannot be listened on.
 * @source emulator, "From a test"
 */
export function startEmulator(options?: EmulatorOptions): Promise<Emulator>;
