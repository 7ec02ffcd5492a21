// The title and the icon of the browser tab, which show problems and a lost connection.

const ICONS = { well: "/icon.svg", trouble: "/icon-trouble.svg", disconnected: "/icon-disconnected.svg" };

export class TabSign {
  constructor(icon) {
    this.icon = icon;
    this.troubleCount = 0;
    this.isConnected = true;
    this.answer = "lbdns";
  }

  /** Show the next answer of the first pool on the page, as [name, member]; null if it is unknown. */
  setAnswer(answer) {
    this.answer = answer ? answer.join(" → ") : "lbdns";
    this.show();
  }

  /** Show the number of problems that no operator has ordered. */
  setProblems(problems) {
    this.troubleCount = problems.filter(({ isPlanned }) => !isPlanned).length;
    this.show();
  }

  setConnected(isConnected) {
    this.isConnected = isConnected;
    this.show();
  }

  show() {
    const state = !this.isConnected ? "disconnected" : this.troubleCount ? "trouble" : "well";
    if (state !== this.state) this.icon.href = ICONS[state];
    this.state = state;
    const title = { well: this.answer, trouble: `(${this.troubleCount}) ${this.answer}`, disconnected: "No connection – lbdns" }[state];
    if (document.title !== title) document.title = title;
  }
}
