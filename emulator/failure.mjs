// An answer other than success, thrown by whatever cannot do what a call asks for. The server turns it into the
// JSend envelope that the protocol prescribes: `fail` for the caller's mistakes, `error` for the endpoint's own.

export class Failure extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {Record<string, unknown>} [data] more members for the envelope's data
   */
  constructor(status, message, data = {}) {
    super(message);
    this.status = status;
    this.data = data;
  }

  envelope() {
    if (this.status >= 500 && this.status !== 501) return { status: "error", message: this.message, code: this.status };
    return { status: "fail", data: { message: this.message, ...this.data } };
  }
}
