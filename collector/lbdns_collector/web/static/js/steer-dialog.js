// The dialog that drains, forces or weights a member, if the server permits steering over HTTP.

import { make, makeButton, makeLabel, makeSelect, setHidden, setText } from "./dom-elements.js";
import { sendCommand } from "./fetch-api.js";

const ACTIONS = [
  ["drain", "Drain: no new clients"], ["undrain", "End the drain"], ["weight", "Weight: multiply the capacity"],
  ["force-up", "Force up"], ["force-down", "Force down"], ["force-auto", "End the forced state"],
];
const ENDING = ["undrain", "force-auto"];
const SPANS = [["", "until ended"], ["600", "10 minutes"], ["3600", "1 hour"], ["14400", "4 hours"], ["86400", "1 day"]];

export class SteerDialog {
  #member = "";
  #pool = "";
  #insists = false;  // the server has warned that the pool needs the member, and the user repeats the command
  #opened = 0;  // how often; a response that arrives after the dialog was closed must not change the next dialog

  constructor() {
    this.title = make("h2");
    this.title.id = "steer-title";
    this.action = makeSelect(ACTIONS, "drain");
    this.everywhere = makeSelect([["", "this pool only"], ["all", "all pools with this member"]], "");
    this.factor = make("input");
    Object.assign(this.factor, { type: "number", min: "0.01", max: "100", step: "any", value: "0.5" });
    this.span = makeSelect(SPANS, "");
    this.reason = make("input");
    Object.assign(this.reason, { type: "text", maxLength: 200, autocomplete: "off" });
    this.token = make("input");
    Object.assign(this.token, { type: "password", autocomplete: "off" });
    this.factorLabel = makeLabel("Factor (0.01 to 100)", this.factor);
    this.spanLabel = makeLabel("Duration", this.span);
    this.tokenLabel = makeLabel("Token for steering", this.token);
    this.message = make("p", "steer-message");
    this.message.setAttribute("role", "alert");
    this.confirm = make("button", "", "Drain");
    this.confirm.type = "submit";
    this.cancel = makeButton("Cancel", () => this.element.close());
    const form = make(
      "form", "steer-form", this.title, makeLabel("Action", this.action), this.factorLabel, this.spanLabel,
      makeLabel("Pools", this.everywhere), makeLabel("Reason", this.reason), this.tokenLabel, this.message,
      make("p", "buttons", this.confirm, this.cancel),
    );
    form.addEventListener("submit", event => {
      event.preventDefault();
      this.#send();
    });
    form.addEventListener("input", () => this.#show());
    this.element = make("dialog", "", form);
    this.element.id = "steer";
    this.element.setAttribute("aria-labelledby", this.title.id);
    this.element.addEventListener("close", () => this.#opened++);
    this.tokenLabel.hidden = true;
    document.body.append(this.element);
  }

  /** Open the dialog for one member of a pool. */
  open(member, pool) {
    this.#member = member;
    this.#pool = pool;
    this.reason.value = "";
    this.confirm.disabled = false;
    setText(this.message, "");
    this.#show();
    this.element.showModal();
  }

  #show() {
    const action = this.action.value;
    this.#insists = false;
    setText(this.cancel, "Cancel");
    setHidden(this.confirm, false);
    setText(this.title, `Steer ${this.#member} in pool ${this.#pool}`);
    setHidden(this.factorLabel, action !== "weight");
    setHidden(this.spanLabel, ENDING.includes(action));
    setText(this.confirm, `${ACTIONS.find(([key]) => key === action)[1].split(":")[0]} (${this.#member})`);
  }

  async #send() {
    const [command, to] = this.action.value.split("-");
    const parameters = { member: this.#member, reason: this.reason.value };
    if (!this.everywhere.value) parameters.pool = this.#pool;
    if (to) parameters.to = to;
    if (command === "weight") parameters.factor = this.factor.value;
    if (this.span.value && !ENDING.includes(this.action.value)) parameters.for_s = this.span.value;
    if (this.#insists) parameters.force = "true";
    this.confirm.disabled = true;
    const opened = this.#opened;
    const reply = await sendCommand(command, parameters, this.token.value).catch(error => ({ error }));
    if (opened !== this.#opened) return;
    this.confirm.disabled = false;
    if (reply.error) this.#fail(reply.error);
    else if (reply.notes.length) this.#succeed(reply.notes);
    else this.element.close();
  }

  /** Show the server's notes about the effects of a command that it has carried out. */
  #succeed(notes) {
    setText(this.message, `Done. Note: ${notes.join("; ")}.`);
    setText(this.cancel, "Close");
    setHidden(this.confirm, true);
    this.cancel.focus();
  }

  #fail(error) {
    if (error.status === 409) {
      this.#insists = true;
      setText(this.message, `${error.message.replace(/; to proceed, add force=true$/, "")}.`);
      setText(this.confirm, "Proceed anyway");
      return;
    }
    const asks = error.status === 401 && !this.token.value;
    setText(this.message, asks ? "Steering requires a token. Enter the token, then confirm." : error.message);
    if (error.status === 401 || error.status === 403) {
      setHidden(this.tokenLabel, false);
      this.token.focus();
    }
  }
}
