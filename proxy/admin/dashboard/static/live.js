// Keeps the page's documents fresh: one request at a time, each when it is due, and the
// stream of points. Nothing is asked for while the page is hidden or paused.

import { events } from './api.js';

const longest = 15_000; // between two attempts

export class Live {
  // tasks: {every, run()} in milliseconds. took(point) is told each event; tell(text, state)
  // what to show of the connection; denied() that a token is needed.
  constructor({ tasks, took, tell, denied, resumed }) {
    Object.assign(this, { tasks: tasks.map((t) => ({ ...t, due: 0 })), took, tell, denied, resumed });
    this.paused = false;
    this.failures = 0;
    document.addEventListener('visibilitychange', () => this.start());
  }

  // Tells whether points come by themselves.
  get fed() {
    return this.failures === 0;
  }

  get running() {
    return !this.paused && !document.hidden && !this.locked;
  }

  pause(paused) {
    this.paused = paused;
    this.start();
  }

  // Goes on after a token was given.
  unlock() {
    this.locked = false;
    this.start();
  }

  // Asks at once for what a task asks for.
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
    this.listen(this.stop.signal);
  }

  async poll(signal) {
    while (!signal.aborted) {
      for (const t of this.tasks) {
        if (signal.aborted) return;
        if (t.due > performance.now()) continue;
        t.due = performance.now() + t.every();
        try {
          await t.run();
        } catch (error) {
          if (this.refused(error)) return;
          t.failed?.(error);
        }
      }
      await this.sleep(250, signal);
    }
  }

  async listen(signal) {
    while (!signal.aborted) {
      try {
        await events(signal, (point) => {
          if (signal.aborted) return;
          if (this.failures > 0) this.resumed?.();
          this.failures = 0;
          this.tell('Live', 'live');
          this.took(point);
        });
      } catch (error) {
        if (signal.aborted || this.refused(error)) return;
      }
      const wait = Math.min(longest, 1000 * 2 ** Math.min(this.failures++, 6)) * (0.75 + Math.random() / 2);
      this.tell(`Connection lost; next attempt in ${Math.ceil(wait / 1000)} s`, 'lost'); // read aloud once
      await new Promise((done) => {
        setTimeout(done, wait);
        signal.addEventListener('abort', done, { once: true });
      });
    }
  }

  refused(error) {
    if (error.status !== 401) return false;
    this.lock(error.message);
    return true;
  }

  // Asks for nothing until a token was given.
  lock(why) {
    this.locked = true;
    this.stop?.abort();
    this.tell('Needs the token', 'lost');
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
