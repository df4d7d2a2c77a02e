// This module keeps the page's documents up to date. It requests one document at a time, when it is due, and
// none while the page is hidden or paused.

const longest = 15_000; // milliseconds between two attempts

export class Live {
  // tasks: {every, run(), failed(error)}, every in milliseconds. tell(text, state) shows the state of
  // the connection; denied() asks for the token.
  constructor({ tasks, tell, denied }) {
    Object.assign(this, { tasks: tasks.map((t) => ({ ...t, due: 0 })), tell, denied });
    this.paused = false;
    this.failures = 0;
    document.addEventListener('visibilitychange', () => this.start());
  }

  get running() {
    return !this.paused && !document.hidden && !this.locked;
  }

  pause(paused) {
    this.paused = paused;
    this.start();
  }

  // Continues after the user has entered a token.
  unlock() {
    this.locked = false;
    this.start();
  }

  // Makes a task due at once.
  hurry(run) {
    for (const t of this.tasks) if (t.run === run) t.due = 0;
    this.wake?.();
  }

  start() {
    this.stop?.abort();
    this.stop = null;
    if (!this.running) {
      if (this.paused) this.tell('Paused', 'paused');
      return;
    }
    this.stop = new AbortController();
    for (const t of this.tasks) t.due = 0;
    this.failures = 0;
    this.poll(this.stop.signal);
  }

  async poll(signal) {
    while (!signal.aborted) {
      for (const t of this.tasks) {
        if (signal.aborted) return;
        if (t.due > performance.now()) continue;
        t.due = performance.now() + t.every;
        try {
          await t.run();
          if (signal.aborted) return;
          this.tell('Live', 'live');
          this.failures = 0;
        } catch (error) {
          if (signal.aborted || this.refused(error)) return;
          t.failed?.(error);
          if (error.status === 0) {
            t.due = 0;
            await this.lost(signal);
            break;
          }
        }
      }
      await this.sleep(250, signal);
    }
  }

  async lost(signal) {
    const wait = Math.min(longest, 1000 * 2 ** Math.min(this.failures++, 6)) * (0.75 + Math.random() / 2);
    this.tell(`Connection lost; next attempt in ${Math.ceil(wait / 1000)} s`, 'lost'); // screen readers read this aloud only once
    await this.sleep(wait, signal);
  }

  refused(error) {
    if (error.status !== 401) return false;
    this.lock(error.message);
    return true;
  }

  // Requests nothing until the user has entered a token.
  lock(why) {
    this.locked = true;
    this.stop?.abort();
    this.tell('Token needed', 'lost');
    this.denied(why);
  }

  sleep(ms, signal) {
    return new Promise((done) => {
      const timer = setTimeout(done, ms);
      this.wake = () => { clearTimeout(timer); done(); };
      signal.addEventListener('abort', this.wake, { once: true });
    });
  }
}
