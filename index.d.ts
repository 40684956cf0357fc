/**
 * The native engine of Paperclip's CreateOS sandbox provider: runs commands in CreateOS sandboxes and looks after their
 * leases. Parameter and result types are structurally those of `@paperclipai/plugin-sdk`, which need not be installed.
 *
 * Every rejection and every error thrown by this module is a {@link CreateosError}, except a `RangeError` for options
 * that cannot be used. No error, warning or inspected object contains an API key, a URL, a path or text that an endpoint
 * sent as an error; only {@link ErrorDetails.entry} and {@link Warn} name paths, in a directory that the caller named, and what a
 * command printed, {@link CreateosError.output}, is as the command printed it.
 *
 * `@source` says where a fact comes from: `SDK`, a type of `@paperclipai/plugin-sdk` 2026.916.1; `CreateOS`, its HTTP API as
 * `docs/protocol.md` sums it up; `contract`, a promise of this package, in full in that section of `docs/contract.md`; `README`,
 * a table there.
 *
 * @module createos-native
 */

/**
 * Validated settings of one environment, as {@link parseConfig} makes them. Printed by `util.inspect` without key and URL.
 * @source README, "Settings"
 */
export interface CreateosConfig {
  /** Origin of the API, without `/v1` or a trailing slash. HTTPS, or HTTP on `localhost`, `127.0.0.1` or `[::1]`. */
  apiUrl: string;
  /** `null`, the default: the client takes the environment variable `CREATEOS_API_KEY`, trimmed. */
  apiKey: string | null;
  /**
   * A name from CreateOS's shape catalogue, such as `s-1vcpu-1gb`: processors and memory of a sandbox. Any text is taken; the
   * endpoint judges it when a sandbox is created.
   */
  shape: string;
  /** An image or a template, by name or ID; `null`, the default, for the endpoint's. It has to have Bash. */
  rootfs: string | null;
  /** One that the endpoint serves; `null`, the default, for the endpoint's. */
  region: string | null;
  /** Milliseconds, 1 to 86,400,000. Bounds a command without a timeout of its own, each other call, and cleanup. Default 300,000. */
  timeoutMs: number;
  /** Whether a released sandbox is paused to be used again instead of deleted. Default `false`. */
  reuseLease: boolean;
}

/**
 * How requests are paced and how persistent they are. Everything is optional. Numbers are integers in the ranges below; a value
 * that cannot be used is a `RangeError` that names the option. What is no option is accepted and without effect.
 * @source README, "Options"; contract, "Pacing" and "How a command runs"
 */
export interface ProviderOptions {
  /**
   * The budget of requests to one `apiUrl`, shared by all clients, providers and worker threads of the process: bursts of
   * `burst` and `requestsPerMinute` sustained, so at most their sum in any 60 seconds; CreateOS allows 300 a minute for each
   * IP address. Within it nothing waits. Every request counts, also those that wait for a sandbox's state by asking every
   * 250 ms; cleanup goes first and may draw on 50 more. The first client that paces a URL fixes its numbers, others get a
   * `RangeError`. `false` neither waits nor counts: for endpoints without a limit, such as the emulator.
   */
  pacing?: false | {
    /** Requests a minute that the budget is refilled by, from 1 to 1,000,000. Default 200. */
    requestsPerMinute?: number;
    /** Requests that need not wait after a pause, from 1 to 1,000,000. Default 40. */
    burst?: number;
  };
  /**
   * A command's output stream that breaks is connected anew. New output starts the count anew, and so does a heartbeat on a
   * connection that is 5 seconds old or older.
   */
  reconnect?: {
    /**
     * Failures in a row that are tolerated, from 0 to 1,000,000. Default 3. A request that broke on a reused connection, without
     * an answer, is sent once more at once, also with 0. If that fails, too, it is one failure, though `details.tries` counts two.
     */
    attempts?: number;
    /**
     * Milliseconds from the first failure to the next attempt, from 0 to 86,400,000. Default 250. Doubles up to 10 seconds,
     * and is at least what `Retry-After` says.
     */
    delayMs?: number;
  };
  /**
   * Milliseconds without a byte after which the output stream is connected anew, which is no failure. 0 disables, at most
   * 86,400,000. Default 300,000.
   */
  idleTimeoutMs?: number;
  /**
   * Bounds the termination of a command's process tree and the removal of its staged files, together with
   * `config.timeoutMs`, whichever is smaller. Milliseconds, 1 to 86,400,000. Default 15,000. Paperclip's host waits 30 seconds
   * after a command's timeout: a larger number than 25,000 is not worth it there.
   */
  cleanupTimeoutMs?: number;
  /**
   * When the script that runs a command is uploaded as a file, `/tmp/paperclip-script-<uuid>`, instead of being an argument
   * of bash: `"large"` (default) when it is longer than 96 KiB, since Linux takes no argument of 128 KiB, or `"always"`. With
   * `"always"` no value of `env` is ever an argument of a process, where everybody in the sandbox could read it; excepted are
   * the variables that bash does not let anybody set (`BASHOPTS`, `BASH_VERSINFO`, `EUID`, `PPID`, `SHELLOPTS`, `UID`).
   */
  stageScript?: "large" | "always";
  /** Is told what happens during the calls of this provider, or of {@link execute} with this client. */
  onEvent?: OnEvent;
}

/**
 * What every event says.
 * @source contract, "Events"
 */
export interface EventSubject {
  /** The method whose call it happened in. */
  readonly call:
    | "execute" | "syncIn" | "syncOut" | "probe" | "acquireLease" | "resumeLease" | "release" | "releaseLease" | "destroyLease";
  /** The sandbox, `null` until it is known. */
  readonly leaseId: string | null;
  /** The process, `null` until it is known and where it is about none. */
  readonly processId: string | null;
}

/**
 * The output stream of a process is open, for the first time or again.
 * @source contract, "Events"
 */
export interface ConnectedEvent extends EventSubject {
  /** Tells this event apart; its channel is `createos:connected`. */
  readonly type: "connected";
}

/**
 * The output stream of a process is lost, or was not to be had, and will be asked for again.
 * @source contract, "Events" and "How a command runs"
 */
export interface ReconnectingEvent extends EventSubject {
  /** Tells this event apart; its channel is `createos:reconnecting`. */
  readonly type: "reconnecting";
  /**
   * `ended`: the stream ended without an exit. `idle`: nothing came for `idleTimeoutMs`, which is no failure. `http`: a request
   * was answered with `status`. All others: the connection broke, or none was made, for the reasons of
   * {@link ErrorDetails.attempts}.
   */
  readonly reason: "ended" | "idle" | "http" | "dns" | "refused" | "reset" | "tls" | "timeout" | "protocol";
  /** With the reason `http`. */
  readonly status?: number;
  /** 1 for the first time since new output came. */
  readonly attempt: number;
  /** Milliseconds until then. */
  readonly delayMs: number;
}

/**
 * Requests are held back.
 * @source contract, "Events" and "Pacing"
 */
export interface ThrottledEvent extends EventSubject {
  /** Tells this event apart; its channel is `createos:throttled`. */
  readonly type: "throttled";
  /**
   * `budget`: a request waits for the budget of its `apiUrl`, see {@link ProviderOptions.pacing}. `hold`: it waits because an
   * earlier answer, whoever asked, was a 429 with `Retry-After`. `rate-limit`: a request of this very call was answered with
   * 429; whether it is made again is told by what follows.
   */
  readonly cause: "budget" | "hold" | "rate-limit";
  /** Milliseconds, as things stand; what goes first can make it longer. With `rate-limit` what `Retry-After` says, or 0. */
  readonly waitMs: number;
}

/**
 * What the call has started is being ended: a process tree, or with `processId: null` the sandbox of a probe or of a lease
 * that could not be set up. `unconfirmed`: nobody can say whether it still runs. Without a `started` before it, the process
 * could not even be named, since its creation was not confirmed.
 * @source contract, "Events" and "How a command ends early"
 */
export interface CleanupEvent extends EventSubject {
  /** Tells this event apart; its channel is `createos:cleanup`. */
  readonly type: "cleanup";
  /** `started`, then `confirmed` by the endpoint, or `unconfirmed`. */
  readonly state: "started" | "confirmed" | "unconfirmed";
}

/**
 * The endpoint has confirmed the end of a lease; states as in {@link TerminationReceipt}.
 * @source contract, "Events" and "Leases"
 */
export interface ReleasedEvent extends EventSubject {
  /** Tells this event apart; its channel is `createos:released`. */
  readonly type: "released";
  /** `stopped`: paused, to be resumed. `destroyed`: deleted, or found to be gone. */
  readonly state: "stopped" | "destroyed";
}

/**
 * Told apart by `type`. Frozen; holds no key, URL, path, command, output or text of an endpoint.
 * @source contract, "Events"
 */
export type CreateosEvent = ConnectedEvent | ReconnectingEvent | ThrottledEvent | CleanupEvent | ReleasedEvent;

/**
 * Gets the events of a call in order, in its async context, all of them before its promise settles and none after. Events and
 * chunks of output come on separate ways: which of two comes first says nothing. What it returns is not awaited. If it
 * throws or rejects, `process.emitWarning` reports the first time (code `CREATEOS_EVENT_CALLBACK`), and the call goes on.
 *
 * The same events are published on the `diagnostics_channel`s `createos:connected`, `createos:reconnecting`,
 * `createos:throttled`, `createos:cleanup` and `createos:released`, for all calls of the thread; a call is told of if there
 * is an `onEvent` or a subscriber to any of them when it starts.
 * @source contract, "Events"
 */
export type OnEvent = (event: CreateosEvent) => unknown;

/**
 * What was being done when it failed, and the requests that did. With bad parameters `{operation: null, tries: 0, attempts: []}`.
 * @source contract, "Errors"
 */
export interface ErrorDetails {
  /**
   * What was being done: `file transfer`, `stdin close`, `output connection`, `process creation`, `process cleanup`,
   * `workspace command` or `sandbox lifecycle`; `null` where it was none of them, as with bad parameters and a cancellation. That
   * a request failed is told by `tries`: a command of a sync that fails is a `workspace command` with `tries: 0`.
   */
  readonly operation: string | null;
  /** How many requests failed, or did not confirm what they had to. Requests that succeeded are not counted. */
  readonly tries: number;
  /** How they ended, the last 16, oldest first: an HTTP status, or why there was no usable answer. */
  readonly attempts: ReadonlyArray<
    | {
      /** The HTTP status of an answer, also of one that was asked for again. */
      readonly status: number;
    }
    | {
      /**
       * `dns`: the name was not resolved. `refused`: nothing listens there, or the network is unreachable. `reset`: the
       * connection broke before the answer was whole. `tls`: certificate, host name or handshake. `timeout`: nothing came in
       * time. `protocol`: a redirect, or something that is not what the API says.
       */
      readonly failure: "dns" | "refused" | "reset" | "tls" | "timeout" | "protocol";
    }
  >;
  /**
   * Of a directory's sync: the entry that it failed at, a path in the directory or as an archive tells it. At most 1,024 bytes
   * of it; bytes that are not UTF-8 are U+FFFD. It is no secret of ours, but it may be one of the caller's.
   */
  readonly entry?: string;
}

/**
 * What a command had printed.
 * @source contract, "Output"
 */
export interface CapturedOutput {
  /** The last 4,194,304 UTF-16 units; never starts inside a character. */
  readonly stdout: string;
  /** Likewise. */
  readonly stderr: string;
  /** Whether either stream printed more than is kept. */
  readonly truncated: boolean;
}

/**
 * The base of all errors of this package. `message` is one of a fixed list and says what happened; `docs/troubleshooting.md` has a
 * section for each. Errors have no `code`: message and class tell them apart.
 * @source contract, "Errors"
 */
export class CreateosError extends Error {
  /** For tests of code that handles errors; the package makes its own. */
  constructor(message: string, facts?: {
    /** Default: no request was made. */
    details?: ErrorDetails;
    /** Default: none. */
    output?: CapturedOutput;
  });
  /** What was tried. Always there. */
  readonly details: ErrorDetails;
  /** Present on errors of a command that had started. Not enumerable: it may be megabytes. */
  readonly output?: CapturedOutput;
}

/**
 * The endpoint answered with an HTTP status that is no success and final: `CreateOS request failed (HTTP STATUS) during
 * OPERATION.`
 * @source contract, "Errors"
 */
export class CreateosApiError extends CreateosError {
  /** For tests of code that handles errors; the package makes its own. */
  constructor(message: string, facts: {
    /** The HTTP status. */
    status: number;
    /** Default: no request was made. */
    details?: ErrorDetails;
    /** Default: none. */
    output?: CapturedOutput;
  });
  /** The HTTP status, such as 404. */
  readonly status: number;
}

/**
 * Nobody can say whether a process still runs in the sandbox. Through a provider, the lease takes no command until it is
 * destroyed.
 * @source contract, "How a command ends early"
 */
export class CreateosCleanupError extends CreateosError {}

/**
 * The addon's binary is not there, or cannot be loaded on this system. Importing the package works all the same; the first call
 * that needs the addon fails with this error, and so does each one after it. The message says what to do. Only a binary whose file
 * was cut short ends Node.js when the package is imported (on Linux by SIGBUS, exit status 135).
 * @source README, "When the binary is missing"
 */
export class CreateosLoadError extends CreateosError {
  /** For tests of code that handles errors; the package makes its own. */
  constructor(message: string, facts?: {
    /** Default: this process's. */
    platform?: string;
    /** Default: this process's. */
    arch?: string;
    /** Default `null`. */
    libc?: string | null;
    /** Default `null`. */
    package?: string | null;
  });
  /** `process.platform`, such as `linux`. */
  readonly platform: string;
  /** `process.arch`, such as `x64`. */
  readonly arch: string;
  /** The C library of Linux, such as `glibc 2.36` or `musl`; elsewhere `null`. */
  readonly libc: string | null;
  /**
   * The package that holds this system's binary, such as `createos-native-linux-x64-gnu`. `null` where there is none, and where
   * none was looked for: with `NAPI_RS_NATIVE_LIBRARY_PATH`, `NAPI_RS_WASI_FLAVOR` or `NAPI_RS_FORCE_WASI=error`, and if `binding.js` is
   * missing.
   */
  readonly package: string | null;
}

/**
 * A sandbox that is held: what acquiring it returned.
 * @source SDK, `PluginEnvironmentLease`
 */
export interface Lease {
  /** The sandbox's ID, `[A-Za-z0-9_-]{1,200}`; `null` when there is none, as of an expired lease. */
  providerLeaseId: string | null;
  /**
   * What {@link CreateosProvider.acquireLease} returned, to be handed back as it is. `provider`, `companyId`, `environmentId` and
   * `apiUrl` tell whose lease it is; `marker`, `shape`, `rootfs` and `region` are for resuming it; `remoteCwd`, `shellCommand` and
   * `reuseLease` are for the host.
   */
  metadata?: Record<string, unknown>;
  /** Never set by this package: a sandbox has no expiry that could be guaranteed. */
  expiresAt?: string | null;
}

/**
 * What all of the SDK's parameters begin with.
 * @source SDK, `PluginEnvironmentDriverBaseParams`
 */
export interface ScopeParams {
  /** Accepted and without effect: this package is one driver. */
  driverKey: string;
  /** Part of a lease's identity. */
  companyId: string;
  /** Part of a lease's identity. */
  environmentId: string;
  /** Accepted and without effect. */
  issueId?: string | null;
  /** Raw settings, see {@link parseConfig}. */
  config: Record<string, unknown>;
}

/**
 * One command.
 * @source SDK, `PluginEnvironmentExecuteParams`; limits: contract, "How a command runs"
 */
export interface ExecuteParams extends ScopeParams {
  /** Where it runs. */
  lease: Lease;
  /** The program, not empty, found by the `PATH` of a login shell in the sandbox. */
  command: string;
  /**
   * Default none. Any text without NUL, shorter than 128 KiB; nothing in it is shell syntax. Lone surrogates become U+FFFD.
   */
  args?: string[];
  /** A directory of the sandbox; by default the one that the sandbox gives its processes. */
  cwd?: string;
  /**
   * Added to the environment of a login shell. Names are `[A-Za-z_][A-Za-z0-9_]*`, values any text without NUL, both together
   * shorter than 128 KiB.
   */
  env?: Record<string, string>;
  /** Standard input, also an empty one, is a file; without it the command reads end of file at once. */
  stdin?: string;
  /** Milliseconds, an integer from 1 to 86,400,000; default `config.timeoutMs`. */
  timeoutMs?: number;
  /** Accepted and without effect: every command is run on its own. */
  bypassSession?: boolean;
}

/**
 * How a command ended.
 * @source SDK, `PluginEnvironmentExecuteResult`; contract, "Output"
 */
export interface ExecuteResult {
  /** The exit code as CreateOS tells it; `null` when a signal ended the process, or it timed out. */
  exitCode: number | null;
  /** Its name, such as `SIGKILL`; `null` when no signal ended the process. */
  signal: string | null;
  /** The deadline came first; the process tree is confirmed gone. */
  timedOut: boolean;
  /** The last 4,194,304 UTF-16 units; never starts inside a character. */
  stdout: string;
  /** Likewise. */
  stderr: string;
  /** What the SDK leaves to the provider. */
  metadata: {
    /** CreateOS's ID of the process; `null` when the deadline came before the process was created. */
    processId: string | null;
    /** Whether either stream printed more than is kept. */
    outputTruncated: boolean;
    [key: string]: unknown;
  };
}

/**
 * A lease that is given back.
 * @source SDK, `PluginEnvironmentReleaseLeaseParams` and `PluginEnvironmentDestroyLeaseParams`
 */
export interface ReleaseParams extends ScopeParams {
  /** `null`, or an empty text: there is nothing to release. */
  providerLeaseId: string | null;
  /** See {@link Lease.metadata}. */
  leaseMetadata?: Record<string, unknown> | undefined;
  /** Accepted and without effect: running commands are always cancelled. */
  cancelActiveWork?: boolean;
}

/**
 * Settings to be checked.
 * @source SDK, `PluginEnvironmentValidateConfigParams`
 */
export interface ValidateConfigParams {
  /** Accepted and without effect. */
  driverKey: string;
  /** Raw settings, see {@link parseConfig}. */
  config: Record<string, unknown>;
}

/**
 * Whether settings can be used.
 * @source SDK, `PluginEnvironmentValidationResult`
 */
export interface ValidationResult {
  /** Whether they can. */
  ok: boolean;
  /** If not: the message of the first fault, alone. */
  errors?: string[];
  /**
   * If so: the settings with their defaults, a {@link CreateosConfig}. **The API key is among them**, as the TypeScript provider
   * has it and the host expects: it is the caller's own, and no place to log.
   */
  normalizedConfig?: Record<string, unknown>;
}

/**
 * Whether an environment works.
 * @source SDK, `PluginEnvironmentProbeResult`
 */
export interface ProbeResult {
  /** Whether a sandbox was set up, ran a command, and was deleted. */
  ok: boolean;
  /** What went well, or the message of the error. */
  summary: string;
}

/**
 * A lease that is wanted. What the SDK has and is not listed here is accepted and without effect.
 * @source SDK, `PluginEnvironmentAcquireLeaseParams`
 */
export interface AcquireLeaseParams extends ScopeParams {
  /** Accepted and without effect. */
  runId: string;
  /** Refused unless absent: a sandbox has no expiry that could be guaranteed. */
  requestedExpiresAt?: string | null;
}

/**
 * A lease that is to be used again.
 * @source SDK, `PluginEnvironmentResumeLeaseParams`
 */
export interface ResumeLeaseParams extends ScopeParams {
  /** The sandbox's ID. */
  providerLeaseId: string;
  /** The metadata that acquiring the lease returned. */
  leaseMetadata?: Record<string, unknown> | undefined;
}

/**
 * The endpoint has confirmed that nothing of the lease runs any more.
 * @source SDK, `PluginEnvironmentTerminationReceipt`
 */
export interface TerminationReceipt {
  /** The sandbox's ID. */
  providerLeaseId: string;
  /** `stopped`: paused, to be resumed. `destroyed`: deleted, or found to be gone. */
  state: "stopped" | "destroyed";
}

/**
 * A workspace that is asked for.
 * @source SDK, `PluginEnvironmentRealizeWorkspaceParams`
 */
export interface RealizeWorkspaceParams extends ScopeParams {
  /** Whose sandbox it is in. */
  lease: Lease;
  /** Accepted and without effect: there is one workspace in each sandbox. */
  workspace: {
    /** Without effect. */
    localPath?: string;
    /** Without effect. */
    remotePath?: string;
    /** Without effect. */
    mode?: string;
    /** Without effect. */
    metadata?: Record<string, unknown>;
  };
}

/**
 * Where a workspace is.
 * @source SDK, `PluginEnvironmentRealizeWorkspaceResult`
 */
export interface RealizeWorkspaceResult {
  /** `/paperclip-workspace`. */
  cwd: string;
  /** The same, as leases' metadata have it. */
  metadata: {
    /** Always `createos`. */
    provider: "createos";
    /** `/paperclip-workspace`. */
    remoteCwd: string;
  };
}

/**
 * A file or a directory and where it goes. The workspace is `/paperclip-workspace`; paths in it hold no part `..` and no NUL.
 * @source SDK, `PluginSyncFileMapping`; contract, "File sync"
 */
export interface SyncMapping {
  /** In: an absolute path of the host. Out: an absolute path in the sandbox's workspace. */
  sourcePath: string;
  /** The other way round. */
  targetPath: string;
  /** A regular file, or a directory with everything in it that is not excluded. */
  kind: "file" | "directory";
  /**
   * Exactly this mode at the target, from 0 to 0o777. Default: in, the file's own, or 0o755 for a directory; out, 0o600 for a
   * file, and for a directory 0o700 if it is new. What is in a directory keeps its modes, without set-ID bits.
   */
  mode?: number;
  /**
   * What of a directory stays behind, with everything in it. One grammar for both directions: a pattern is matched with whole
   * parts of a path at any depth, so `node_modules` is every entry of that name and `a/b` every `b` in an `a`. `/` or `./` in
   * front ties it to the directory's root, `/` at the end to directories. `*` is any run of characters in a part, also one that
   * begins with a dot, `?` one character, `[a-z]` and `[!a-z]` one of a set or none of it, `**` any number of parts, `{a,b}`
   * either; a backslash takes the meaning from what follows.
   *
   * A sync of the whole workspace should exclude `.paperclip-runtime`. The lease's marker is in it: in another lease's workspace it
   * takes the place of that lease's own, and {@link CreateosProvider.resumeLease} then finds that one expired.
   */
  exclude?: string[];
  /**
   * Out: what links in the sandbox lead to instead of the links. In: refused for directories. Default `false`: links stay
   * links.
   */
  followSymlinks?: boolean;
  /** Accepted and without effect. */
  access?: "rw" | "ro";
  /** Accepted and without effect. */
  writablePath?: string;
}

/**
 * A command that follows an upload.
 * @source SDK, `PluginPostUploadCommand`
 */
export interface PostUploadCommand {
  /** Run by `bash -c`, exactly as it is. */
  command: string;
  /** An absolute path in the workspace, which is the default. */
  cwd?: string;
  /** Milliseconds, an integer from 1 to 86,400,000; `config.timeoutMs` for the whole sync bounds it all the same. */
  timeoutMs?: number;
}

/**
 * Files that belong together, and what follows them.
 * @source SDK, `PluginSyncOperation`
 */
export interface SyncOperation {
  /** Any text; comes back in the result. */
  operationId: string;
  /** Moved one after the other, in this order. */
  files: SyncMapping[];
  /** In only: run in order once the files are there. The first that fails ends the sync. */
  postUploadCommands?: PostUploadCommand[];
}

/**
 * What is to be moved, in or out.
 * @source SDK, `PluginEnvironmentSyncInParams` and `PluginEnvironmentSyncOutParams`
 */
export interface SyncParams extends ScopeParams {
  /** Whose sandbox it is about. */
  lease: Lease;
  /** Carried out one after the other, in this order; the first fault ends all of them. */
  operations: SyncOperation[];
}

/**
 * What was moved.
 * @source SDK, `PluginEnvironmentSyncResult`
 */
export interface SyncResult {
  /** One for each that was asked for, in the same order. */
  operations: Array<{
    /** As it was given. */
    operationId: string;
    /** Regular files, each once however many names it has. */
    filesTransferred: number;
    /** Bytes of files, and of the archives that directories travelled as. */
    bytesTransferred: number;
  }>;
}

/**
 * Is told what of a directory did not travel though nobody excluded it, before the call settles and in its async context: links
 * to absolute paths on their way out, sockets, FIFOs and devices on their way in. The first hundred by name, the rest by
 * number. A plugin passes its logger's `warn`. What it returns is not awaited. If it throws or rejects, `process.emitWarning`
 * reports the first time with the code `CREATEOS_WARN_CALLBACK`; it is told the rest all the same, and the sync ends as it would
 * have.
 * @source contract, "File sync"
 */
export type Warn = (message: string, facts: { entry?: string; reason?: string; more?: number }) => unknown;

/**
 * What a provider knows of itself.
 * @source SDK, `PluginHealthDiagnostics`
 */
export interface Health {
  /** `degraded` while there are leases that must be destroyed, `error` after a shutdown. */
  status: "ok" | "degraded" | "error";
  /** The same in a sentence. */
  message: string;
  /** How much there is of what. */
  details: {
    /** Commands, syncs, acquisitions, probes and resumes in progress. */
    running: number;
    /** Leases whose cleanup is unconfirmed. */
    unconfirmed: number;
  };
}

/**
 * Gets a command's output as soon as it is there: in order, both streams in their true interleaving, never empty, at most
 * 262,144 UTF-16 units a call, never cut inside a character, in the async context of the call, and all of it before the
 * call's promise settles. What it returns is not awaited. If it throws or rejects, `process.emitWarning` reports the first
 * time with the code `CREATEOS_LOG_CALLBACK`, and the command goes on. While it is slow, up to 16 MiB a command (48 MiB a
 * process) are read ahead; then reading waits.
 * @source contract, "Output"; SDK, `PluginContext["execution"]["log"]`
 */
export type Log = (stream: "stdout" | "stderr", text: string) => unknown;

/**
 * Checks raw settings and fills in defaults. Texts are trimmed, `null` counts as absent, and what is no setting is dropped.
 * @throws {CreateosError} naming the first setting that cannot be used
 * @source README, "Settings"
 */
export function parseConfig(raw: Record<string, unknown>): CreateosConfig;

/**
 * An authenticated client of one endpoint, for {@link execute}. Connections are shared by all clients of the process.
 * @source contract, "How a command runs"
 */
export class CreateosClient {
  /**
   * @throws {CreateosError} for settings that cannot be used, or without a usable API key in `config.apiKey` or the
   *   environment variable `CREATEOS_API_KEY`
   * @throws {RangeError} for options that cannot be used, also other `pacing` than the URL already has
   */
  constructor(config: CreateosConfig, options?: ProviderOptions);
  /** A frozen copy of the settings. Its `apiKey` is `null` if the key came from the environment. */
  readonly config: Readonly<CreateosConfig>;
}

/**
 * Runs one command in the sandbox `params.lease.providerLeaseId` and resolves when it has ended and nothing of it is left
 * behind. Never refused for the state of the lease; {@link release} ends it all the same.
 *
 * With a `signal` only the signal bounds it: an abort whose reason is named `TimeoutError` gives a result with
 * `timedOut: true`, any other rejects. Without one, `params.timeoutMs` or else `config.timeoutMs` does.
 *
 * Commands are started at most once and their output is followed over any number of connections.
 *
 * Rejects with a {@link CreateosError} (bad parameters, before any request; output that cannot be followed; cancelled), a
 * {@link CreateosApiError} (a final status) or a {@link CreateosCleanupError} (the process may still run).
 * @source contract, "How a command runs" and "How a command ends early"
 */
export function execute(client: CreateosClient, params: ExecuteParams, signal?: AbortSignal | null, log?: Log | null): Promise<ExecuteResult>;

/**
 * Gives a lease back, by the provider of the whole process: cancels its commands and waits for them, then deletes the
 * sandbox, or pauses it if the settings say `reuseLease` and `destroy` is not `true`. Resolves when the endpoint has
 * confirmed it; `config.timeoutMs` bounds that. Without a `providerLeaseId` there is nothing to do.
 *
 * Rejects with a {@link CreateosError} if the lease is somebody else's, is being released already, or cannot be reused, and
 * if the endpoint does not confirm.
 * @source contract, "Leases"
 */
export function release(params: ReleaseParams, destroy: boolean): Promise<void>;

/**
 * Cancels everything that {@link execute} runs and confirms that it has ended. Resolves within 10 seconds: what could not
 * be confirmed by then has rejected with a {@link CreateosCleanupError}. Commands that are started afterwards run. Never
 * rejects.
 * @source contract, "Leases"
 */
export function shutdown(): Promise<void>;

/**
 * A provider with a lease state of its own: all that Paperclip asks of a sandbox provider, hook by hook, with the SDK's
 * parameters and results.
 *
 * Besides the errors named below, each call that makes requests can reject with those of {@link CreateosClient}'s constructor
 * (settings, key, `pacing`), with a {@link CreateosApiError}, and with `CreateOS connection failed.` and its like.
 * @source SDK, `PaperclipPlugin`; contract, "Leases", "The life of a lease" and "File sync"
 */
export class CreateosProvider {
  /** @throws {RangeError} for options that cannot be used */
  constructor(options?: ProviderOptions);

  /** Checks settings, as {@link parseConfig} does; makes no request. Settings that cannot be used are a result, too. */
  validateConfig(params: ValidateConfigParams): Promise<ValidationResult>;

  /**
   * Tries settings: sets a sandbox up as for a lease, runs a command in it and deletes it. What does not work is a result;
   * the call rejects only if a sandbox that was set up could not be deleted afterwards.
   */
  probe(params: ScopeParams): Promise<ProbeResult>;

  /**
   * Makes a lease: creates a sandbox, waits until it runs, makes the workspace and writes a marker into it, all within
   * `config.timeoutMs`. If any of it fails the sandbox is deleted again; if that fails too, the error names the sandbox.
   * The lease's metadata is all that later calls need of it, and never contains the key.
   *
   * A creation whose answer is lost rejects with `CreateOS connection failed.`; the API has no way to find out whether a
   * sandbox was created all the same.
   */
  acquireLease(params: AcquireLeaseParams): Promise<Lease>;

  /**
   * Makes a lease usable again, waking its sandbox if it is paused. A lease that this provider did not have before, as
   * after a restart, is first freed of every process that still runs in it.
   *
   * A sandbox that is gone, has another marker, or is not what the settings ask for now gives the SDK's expired lease,
   * `{providerLeaseId: null, metadata: {expired: true}}`. Nothing is deleted then: a sandbox that is not gone may still run, and is
   * the caller's to delete, by {@link destroyLease} with the lease as it was acquired. A passing fault rejects, and changes nothing.
   * Rejects also for a lease of somebody else, and for one that is being released or whose cleanup is unconfirmed.
   */
  resumeLease(params: ResumeLeaseParams): Promise<Lease>;

  /**
   * Gives a lease back: cancels everything that runs on it, whatever `cancelActiveWork` says, and waits for it, then
   * pauses the sandbox if the settings say `reuseLease`, else deletes it. Resolves once that is confirmed; without a
   * `providerLeaseId` to `undefined`, for there is nothing to do. Rejects as {@link release} does; then there is no receipt.
   */
  releaseLease(params: ReleaseParams): Promise<TerminationReceipt | undefined>;

  /** Like {@link releaseLease}, and always deletes the sandbox. */
  destroyLease(params: ReleaseParams): Promise<TerminationReceipt | undefined>;

  /** Tells where a lease's workspace is; makes no request. */
  realizeWorkspace(params: RealizeWorkspaceParams): Promise<RealizeWorkspaceResult>;

  /**
   * Runs one command, as the module's {@link execute} does, on a lease of `params`' company, environment and endpoint.
   * Refused for a lease that is being released or whose cleanup is unconfirmed, and after {@link shutdown}.
   * `params.timeoutMs`, or else `config.timeoutMs`, always bounds it, and a signal as well. Rejects as the module's does.
   */
  execute(params: ExecuteParams, log?: Log | null, signal?: AbortSignal | null): Promise<ExecuteResult>;

  /**
   * Moves files and directories of the host into a lease's workspace, then runs the operation's commands. The whole batch is
   * checked before anything travels, and every target in the sandbox again right before it is written. Directories travel as
   * one archive, streamed, links as links. A new target appears whole; an existing directory gets the entries.
   *
   * Counts as running on its lease: a release cancels it and waits for it. `config.timeoutMs` bounds all of it; when that is
   * over it rejects, with `CreateOS connection failed.` or `CreateOS transfer command failed.`; what was moved by then stays. So it
   * does when `signal` aborts with a `TimeoutError`, as `AbortSignal.timeout` does; any other abort is
   * `CreateOS command was cancelled.`
   */
  syncIn(params: SyncParams, warn?: Warn | null, signal?: AbortSignal | null): Promise<SyncResult>;

  /**
   * Moves files and directories of a lease's workspace to the host. An archive is checked as it comes, into a directory that
   * nobody else can enter; nothing is at its place before all of it was found to be safe, and nothing is there that has not
   * its mode. An existing directory gets the entries one by one, never through a link. At most 10 GiB an archive. Bounded and
   * cancelled as {@link syncIn}.
   */
  syncOut(params: SyncParams, warn?: Warn | null, signal?: AbortSignal | null): Promise<SyncResult>;

  /** Gives a lease back, as the module's {@link release} does. */
  release(params: ReleaseParams, destroy: boolean): Promise<void>;

  /** What the provider knows of itself; makes no request and never rejects. */
  health(): Promise<Health>;

  /**
   * Cancels everything that runs, confirms that it has ended and refuses new work. Resolves within 10 seconds: what could
   * not be confirmed by then has rejected with a {@link CreateosCleanupError}. Leases can still be released. Never rejects.
   */
  shutdown(): Promise<void>;
}

/**
 * Makes a provider with a lease state of its own.
 * @throws {RangeError} for options that cannot be used
 * @source README, "Options"; contract, "Leases"
 */
export function createProvider(options?: ProviderOptions): CreateosProvider;

/**
 * One word for a POSIX shell, in single quotes.
 * @throws {CreateosError} for a value with NUL, which no shell word can hold, and for what is no text
 * @source contract, "How a command runs"
 */
export function shellQuote(value: string): string;
