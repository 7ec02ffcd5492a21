// The connection to the server: receives statuses and events from the event stream, and polls while the stream is down.

import { fetchText } from "./fetch-api.js";

const POLL_INTERVAL = 2000;  // milliseconds between polls while there is no event stream
const MAX_SILENCE = 5000;  // milliseconds without a status after which even an open stream counts as dead
const POLL_TIMEOUT = 4000;  // milliseconds
const MIN_PAUSE = 100;  // milliseconds between two updates; viewers cannot read faster
const PAUSE_PER_WORK = 9;  // the pause after an update is this many times as long as the update took
const MAX_PAUSE = 2000;  // milliseconds: a single slow update must not make the page look dead
const RECONNECT_DELAY = 20_000;  // milliseconds until a refused stream is opened again

/** Calls ``onStatus(document, receivedAt)``, ``onEvent(event)`` and ``onLink(state)`` with the state "live", "polling" or
 * "disconnected". */
export class StatusStream {
  constructor({ onStatus, onEvent, onLink }) {
    Object.assign(this, { onStatus, onEvent, onLink });
    this.receivedAt = performance.now();
    this.pending = null;  // the newest status, as text, not yet shown
    this.timer = null;
    this.pauseEnd = 0;
    this.isPolling = false;
    this.stream = null;
  }

  start() {
    this.connect();
    setInterval(() => this.pollIfSilent(), POLL_INTERVAL);
  }

  connect() {
    const stream = new EventSource("/api/v1/events");
    this.stream = stream;
    stream.addEventListener("status", event => this.receive(event.data));
    stream.addEventListener("log", event => this.onEvent(JSON.parse(event.data)));
    stream.addEventListener("error", () => {
      this.poll();
      // The browser reconnects automatically when a stream breaks, but gives up when the server refuses the stream
      if (stream.readyState === EventSource.CLOSED) setTimeout(() => this.connect(), RECONNECT_DELAY);
    });
  }

  get isStreaming() {
    return this.stream.readyState === EventSource.OPEN;
  }

  pollIfSilent() {
    if (!this.isStreaming || performance.now() - this.receivedAt > MAX_SILENCE) this.poll();
  }

  async poll() {
    if (this.isPolling) return;
    this.isPolling = true;
    try {
      this.receive(await fetchText("/api/v1/status", POLL_TIMEOUT));
    } catch {
      this.onLink("disconnected");
    } finally {
      this.isPolling = false;
    }
  }

  /** Show a status when the pause after the last update has ended. A newer status replaces a pending one. The pauses keep
   * a page with many members responsive. */
  receive(text) {
    this.receivedAt = performance.now();
    this.pending = text;
    this.timer ??= setTimeout(() => this.update(), Math.max(0, this.pauseEnd - this.receivedAt));
  }

  update() {
    const start = performance.now();
    const text = this.pending;
    this.timer = this.pending = null;
    this.onStatus(JSON.parse(text), this.receivedAt);
    this.onLink(this.isStreaming ? "live" : "polling");
    const end = performance.now();
    this.pauseEnd = end + Math.min(MAX_PAUSE, Math.max(MIN_PAUSE, PAUSE_PER_WORK * (end - start)));
  }
}
