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

/** A provider with a lease state of its own. */
export class CreateosProvider {
  /** @throws {RangeError} for options that cannot be used */
  constructor(options?: ProviderOptions);

  /**
   * Runs one command, as the module's {@link execute} does, on a lease of `params`' company, environment and endpoint.
   * Refused for a lease that is being released or whose cleanup is unconfirmed, and after {@link shutdown}.
   * `params.timeoutMs`, or else `config.timeoutMs`, always bounds it, and a signal as well.
   */
  execute(params: ExecuteParams, log?: Log | null, signal?: AbortSignal | null): Promise<ExecuteResult>;

  /** Gives a lease back, as the module's {@link release} does. */
  release(params: ReleaseParams, destroy: boolean): Promise<void>;

  /**
   * Cancels all commands, confirms that they have ended and refuses new ones. Resolves within 10 seconds: what could not
   * be confirmed by then has rejected with a {@link CreateosCleanupError}. Leases can still be released.
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
