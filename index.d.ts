/**
 * The native engine of Paperclip's CreateOS sandbox provider: runs commands in CreateOS sandboxes and looks after their
 * leases. Parameter and result types are structurally those of `@paperclipai/plugin-sdk`, which need not be installed.
 *
 * Every rejection and every error thrown by this module is a {@link CreateosError}, except a `RangeError` for options
 * that cannot be used. No error, warning or inspected object contains an API key, a URL, a path or text that an endpoint
 * sent as an error.
 */

/** Validated settings of one environment, as {@link parseConfig} makes them. Printed by `util.inspect` without key and URL. */
export interface CreateosConfig {
  /** Origin of the API, without a trailing slash. HTTPS, or HTTP on `localhost`, `127.0.0.1` or `[::1]`. */
  apiUrl: string;
  /** `null`: the client takes the environment variable `CREATEOS_API_KEY`, trimmed. */
  apiKey: string | null;
  /** A name from CreateOS's shape catalogue, such as `s-1vcpu-1gb`. */
  shape: string;
  /** An image; `null` for the endpoint's default. */
  rootfs: string | null;
  /** `null` for the endpoint's default. */
  region: string | null;
  /** Milliseconds, 1 to 86,400,000. Bounds a command without a timeout of its own, a release, and cleanup. Default 300,000. */
  timeoutMs: number;
  /** Whether a released sandbox is paused to be used again instead of deleted. Default `false`. */
  reuseLease: boolean;
}

/** How requests are paced and how persistent they are. Everything is optional. */
export interface ProviderOptions {
  /**
   * The budget of requests to one `apiUrl`, shared by all clients, providers and worker threads of the process: bursts of
   * `burst` (default 40) and `requestsPerMinute` (default 200) sustained, so at most their sum in any 60 seconds; CreateOS
   * allows 300 a minute for each IP address. Within it nothing waits. Both are integers from 1 to 1,000,000. The first
   * client that paces a URL fixes its numbers, others get a `RangeError`. `false` neither waits nor counts.
   */
  pacing?: false | { requestsPerMinute?: number; burst?: number };
  /**
   * A command's output stream that breaks is connected anew. `attempts` (0 to 1,000,000, default 3) failures in a row are
   * tolerated; new output starts the count anew. The delay between them doubles from `delayMs` (0 to 86,400,000, default
   * 250) to 10 seconds, and is at least what `Retry-After` says.
   */
  reconnect?: { attempts?: number; delayMs?: number };
  /** After this long without a byte the output stream is connected anew, which is no failure. 0 disables, at most 86,400,000; default 300,000. */
  idleTimeoutMs?: number;
  /**
   * Bounds the termination of a command's process tree and the removal of its staged files, together with
   * `config.timeoutMs`, whichever is smaller. 1 to 86,400,000, default 15,000.
   */
  cleanupTimeoutMs?: number;
  /**
   * When the script that runs a command is uploaded as a file, `/tmp/paperclip-script-<uuid>`, instead of being an argument
   * of bash: `"large"` (default) when it is longer than 96 KiB, since Linux takes no argument of 128 KiB, or `"always"`. With
   * `"always"` no value of `env` is ever an argument of a process, where everybody in the sandbox could read it; excepted are
   * the variables that bash does not let anybody set (`BASHOPTS`, `BASH_VERSINFO`, `EUID`, `PPID`, `SHELLOPTS`, `UID`).
   */
  stageScript?: "large" | "always";
}

/** What was tried before an error was given up to. */
export interface ErrorDetails {
  /**
   * What the requests were for: `file transfer`, `stdin close`, `output connection`, `process creation`,
   * `process cleanup`, `workspace command` or `sandbox lifecycle`; `null` where no request was made.
   */
  readonly operation: string | null;
  /** How many requests were made. */
  readonly tries: number;
  /** How they ended, the last 16, oldest first: an HTTP status, or why there was no usable answer. */
  readonly attempts: ReadonlyArray<
    | { readonly status: number }
    | { readonly failure: "dns" | "refused" | "reset" | "tls" | "timeout" | "protocol" }
  >;
  /** Of a directory's sync: the entry that it failed at, a path in the directory or as an archive tells it. */
  readonly entry?: string;
}

/** What a command had printed. */
export interface CapturedOutput {
  /** The last 4,194,304 UTF-16 units; never starts inside a character. */
  readonly stdout: string;
  /** Likewise. */
  readonly stderr: string;
  /** Whether either stream printed more than is kept. */
  readonly truncated: boolean;
}

/** The base of all errors of this package. The message says what happened; see the README for each one's remedy. */
export class CreateosError extends Error {
  constructor(message: string, facts?: { details?: ErrorDetails; output?: CapturedOutput });
  readonly details: ErrorDetails;
  /** Present on errors of a command that had started. Not enumerable: it may be megabytes. */
  readonly output?: CapturedOutput;
}

/** The endpoint answered with an HTTP status that is no success and final. */
export class CreateosApiError extends CreateosError {
  constructor(message: string, facts: { status: number; details?: ErrorDetails; output?: CapturedOutput });
  readonly status: number;
}

/**
 * Nobody can say whether a process still runs in the sandbox. Through a provider, the lease takes no command until it is
 * destroyed.
 */
export class CreateosCleanupError extends CreateosError {}

/** A sandbox that is held: what acquiring it returned. */
export interface Lease {
  providerLeaseId: string | null;
  metadata?: Record<string, unknown>;
  expiresAt?: string | null;
}

/** What all of the SDK's parameters begin with. */
export interface ScopeParams {
  driverKey: string;
  companyId: string;
  environmentId: string;
  issueId?: string | null;
  /** Raw settings, see {@link parseConfig}. */
  config: Record<string, unknown>;
}

/** The SDK's `PluginEnvironmentExecuteParams`. */
export interface ExecuteParams extends ScopeParams {
  lease: Lease;
  /** The program, found by the `PATH` of a login shell in the sandbox. */
  command: string;
  /** Any text without NUL, shorter than 128 KiB; nothing in it is shell syntax. Lone surrogates become U+FFFD. */
  args?: string[];
  /** A directory of the sandbox; by default the one that the sandbox gives its processes. */
  cwd?: string;
  /** Names are `[A-Za-z_][A-Za-z0-9_]*`, values any text without NUL, both together shorter than 128 KiB. */
  env?: Record<string, string>;
  /** Standard input, also an empty one, is a file; without it the command reads end of file at once. */
  stdin?: string;
  /** Milliseconds, an integer from 1 to 86,400,000; default `config.timeoutMs`. */
  timeoutMs?: number;
  /** Accepted and without effect: every command is run on its own. */
  bypassSession?: boolean;
}

/** The SDK's `PluginEnvironmentExecuteResult`. */
export interface ExecuteResult {
  /** `null` when a signal ended the process, or it timed out. */
  exitCode: number | null;
  /** Its name, such as `SIGKILL`; `null` when no signal ended the process. */
  signal: string | null;
  /** The deadline came first; the process tree is confirmed gone. */
  timedOut: boolean;
  /** The last 4,194,304 UTF-16 units; never starts inside a character. */
  stdout: string;
  /** Likewise. */
  stderr: string;
  metadata: {
    /** `null` when the deadline came before the process was created. */
    processId: string | null;
    /** Whether either stream printed more than is kept. */
    outputTruncated: boolean;
    [key: string]: unknown;
  };
}

/** The SDK's `PluginEnvironmentReleaseLeaseParams`. */
export interface ReleaseParams extends ScopeParams {
  providerLeaseId: string | null;
  leaseMetadata?: Record<string, unknown>;
  /** Accepted and without effect: running commands are always cancelled. */
  cancelActiveWork?: boolean;
}

/** The SDK's `PluginEnvironmentValidateConfigParams`. */
export interface ValidateConfigParams {
  driverKey: string;
  config: Record<string, unknown>;
}

/** The SDK's `PluginEnvironmentValidationResult`. */
export interface ValidationResult {
  ok: boolean;
  errors?: string[];
  /** The settings with their defaults, a {@link CreateosConfig}. */
  normalizedConfig?: Record<string, unknown>;
}

/** The SDK's `PluginEnvironmentProbeResult`. */
export interface ProbeResult {
  ok: boolean;
  /** What went well, or the message of the error. */
  summary: string;
}

/** The SDK's `PluginEnvironmentAcquireLeaseParams`; what is not listed here is accepted and without effect. */
export interface AcquireLeaseParams extends ScopeParams {
  runId: string;
  /** Refused unless absent: a sandbox has no expiry that could be guaranteed. */
  requestedExpiresAt?: string | null;
}

/** The SDK's `PluginEnvironmentResumeLeaseParams`. */
export interface ResumeLeaseParams extends ScopeParams {
  providerLeaseId: string;
  /** The metadata that acquiring the lease returned. */
  leaseMetadata?: Record<string, unknown>;
}

/** The SDK's `PluginEnvironmentTerminationReceipt`: the endpoint has confirmed that nothing of the lease runs any more. */
export interface TerminationReceipt {
  providerLeaseId: string;
  /** `stopped`: paused, to be resumed. `destroyed`: deleted, or found to be gone. */
  state: "stopped" | "destroyed";
}

/** The SDK's `PluginEnvironmentRealizeWorkspaceParams`. */
export interface RealizeWorkspaceParams extends ScopeParams {
  lease: Lease;
  /** Accepted and without effect: there is one workspace in each sandbox. */
  workspace: { localPath?: string; remotePath?: string; mode?: string; metadata?: Record<string, unknown> };
}

/** The SDK's `PluginEnvironmentRealizeWorkspaceResult`. */
export interface RealizeWorkspaceResult {
  cwd: string;
  metadata: { provider: "createos"; remoteCwd: string };
}

/** The SDK's `PluginSyncFileMapping`: a file or a directory and where it goes. */
export interface SyncMapping {
  /** In: an absolute path of the host. Out: an absolute path in the sandbox's workspace. */
  sourcePath: string;
  /** The other way round. */
  targetPath: string;
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
   */
  exclude?: string[];
  /** Out: what links in the sandbox lead to instead of the links. In: refused for directories. */
  followSymlinks?: boolean;
  /** Accepted and without effect. */
  access?: "rw" | "ro";
  /** Accepted and without effect. */
  writablePath?: string;
}

/** The SDK's `PluginPostUploadCommand`. */
export interface PostUploadCommand {
  /** Run by `bash -c`, exactly as it is. */
  command: string;
  /** An absolute path in the workspace, which is the default. */
  cwd?: string;
  /** Milliseconds, an integer from 1 to 86,400,000; `config.timeoutMs` for the whole sync bounds it all the same. */
  timeoutMs?: number;
}

/** The SDK's `PluginSyncOperation`. */
export interface SyncOperation {
  operationId: string;
  files: SyncMapping[];
  /** In only: run in order once the files are there. The first that fails ends the sync. */
  postUploadCommands?: PostUploadCommand[];
}

/** The SDK's `PluginEnvironmentSyncInParams` and `PluginEnvironmentSyncOutParams`. */
export interface SyncParams extends ScopeParams {
  lease: Lease;
  operations: SyncOperation[];
}

/** The SDK's `PluginEnvironmentSyncResult`. */
export interface SyncResult {
  operations: Array<{
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
 * number. A plugin passes its logger's `warn`.
 */
export type Warn = (message: string, facts: { entry?: string; reason?: string; more?: number }) => unknown;

/** The SDK's `PluginHealthDiagnostics`. */
export interface Health {
  /** `degraded` while there are leases that must be destroyed, `error` after a shutdown. */
  status: "ok" | "degraded" | "error";
  message: string;
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
 * time, and the command goes on. While it is slow, up to 16 MiB a command (48 MiB a process) are read ahead; then reading
 * waits.
 */
export type Log = (stream: "stdout" | "stderr", text: string) => unknown;

/**
 * Checks raw settings and fills in defaults.
 * @throws {CreateosError} naming the first setting that cannot be used
 */
export function parseConfig(raw: Record<string, unknown>): CreateosConfig;

/**
 * An authenticated client of one endpoint, for {@link execute}. Connections are shared by all clients of the process.
 */
export class CreateosClient {
  /**
   * @throws {CreateosError} for settings that cannot be used, or without a usable API key in `config.apiKey` or the
   *   environment variable `CREATEOS_API_KEY`
   * @throws {RangeError} for options that cannot be used
   */
  constructor(config: CreateosConfig, options?: ProviderOptions);
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
 */
export function execute(client: CreateosClient, params: ExecuteParams, signal?: AbortSignal | null, log?: Log | null): Promise<ExecuteResult>;

/**
 * Gives a lease back, by the provider of the whole process: cancels its commands and waits for them, then deletes the
 * sandbox, or pauses it if the settings say `reuseLease` and `destroy` is not `true`. Resolves when the endpoint has
 * confirmed it; `config.timeoutMs` bounds that. Without a `providerLeaseId` there is nothing to do.
 */
export function release(params: ReleaseParams, destroy: boolean): Promise<void>;

/**
 * Cancels everything that {@link execute} runs and confirms that it has ended. Resolves within 10 seconds: what could not
 * be confirmed by then has rejected with a {@link CreateosCleanupError}. Commands that are started afterwards run.
 */
export function shutdown(): Promise<void>;

/**
 * A provider with a lease state of its own: all that Paperclip asks of a sandbox provider, hook by hook, with the SDK's
 * parameters and results.
 */
export class CreateosProvider {
  /** @throws {RangeError} for options that cannot be used */
  constructor(options?: ProviderOptions);

  /** Checks settings, as {@link parseConfig} does; makes no request. */
  validateConfig(params: ValidateConfigParams): Promise<ValidationResult>;

  /**
   * Tries settings: sets a sandbox up as for a lease, runs a command in it and deletes it. What does not work is a result;
   * the call rejects only if the sandbox could not be deleted afterwards.
   */
  probe(params: ScopeParams): Promise<ProbeResult>;

  /**
   * Makes a lease: creates a sandbox, waits until it runs, makes the workspace and writes a marker into it, all within
   * `config.timeoutMs`. If any of it fails the sandbox is deleted again; if that fails too, the error names the sandbox.
   * The lease's metadata is all that later calls need of it, and never contains the key.
   */
  acquireLease(params: AcquireLeaseParams): Promise<Lease>;

  /**
   * Makes a lease usable again, waking its sandbox if it is paused. A lease that this provider did not have before, as
   * after a restart, is first freed of every process that still runs in it.
   *
   * A sandbox that is gone, has another marker, or is not what the settings ask for now gives the SDK's expired lease,
   * `{providerLeaseId: null, metadata: {expired: true}}`. A passing fault rejects, and changes nothing.
   */
  resumeLease(params: ResumeLeaseParams): Promise<Lease>;

  /**
   * Gives a lease back: cancels everything that runs on it, whatever `cancelActiveWork` says, and waits for it, then
   * pauses the sandbox if the settings say `reuseLease`, else deletes it. Resolves once that is confirmed; without a
   * `providerLeaseId` to `undefined`, for there is nothing to do.
   */
  releaseLease(params: ReleaseParams): Promise<TerminationReceipt | undefined>;

  /** Like {@link releaseLease}, and always deletes the sandbox. */
  destroyLease(params: ReleaseParams): Promise<TerminationReceipt | undefined>;

  /** Tells where a lease's workspace is; makes no request. */
  realizeWorkspace(params: RealizeWorkspaceParams): Promise<RealizeWorkspaceResult>;

  /**
   * Runs one command, as the module's {@link execute} does, on a lease of `params`' company, environment and endpoint.
   * Refused for a lease that is being released or whose cleanup is unconfirmed, and after {@link shutdown}.
   * `params.timeoutMs`, or else `config.timeoutMs`, always bounds it, and a signal as well.
   */
  execute(params: ExecuteParams, log?: Log | null, signal?: AbortSignal | null): Promise<ExecuteResult>;

  /**
   * Moves files and directories of the host into a lease's workspace, then runs the operation's commands. The whole batch is
   * checked before anything travels, and every target in the sandbox again right before it is written. Directories travel as
   * one archive, streamed, links as links. A new target appears whole; an existing directory gets the entries.
   *
   * Counts as running on its lease: a release cancels it and waits for it. `config.timeoutMs` bounds all of it.
   */
  syncIn(params: SyncParams, warn?: Warn | null, signal?: AbortSignal | null): Promise<SyncResult>;

  /**
   * Moves files and directories of a lease's workspace to the host. An archive is checked as it comes, into a directory that
   * nobody else can enter; nothing is at its place before all of it was found to be safe, and nothing is there that has not
   * its mode. An existing directory gets the entries one by one, never through a link.
   */
  syncOut(params: SyncParams, warn?: Warn | null, signal?: AbortSignal | null): Promise<SyncResult>;

  /** Gives a lease back, as the module's {@link release} does. */
  release(params: ReleaseParams, destroy: boolean): Promise<void>;

  /** What the provider knows of itself; makes no request. */
  health(): Promise<Health>;

  /**
   * Cancels everything that runs, confirms that it has ended and refuses new work. Resolves within 10 seconds: what could
   * not be confirmed by then has rejected with a {@link CreateosCleanupError}. Leases can still be released.
   */
  shutdown(): Promise<void>;
}

/** Makes a provider with a lease state of its own. */
export function createProvider(options?: ProviderOptions): CreateosProvider;

/**
 * One word for a POSIX shell, in single quotes.
 * @throws {CreateosError} for a value with NUL, which no shell word can hold
 */
export function shellQuote(value: string): string;
