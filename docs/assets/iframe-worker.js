/* The search runs in a worker, and browsers start none for pages that are opened as files. Then a hidden frame takes its
   place: it loads the same script, and messages go to and fro. The name is what the theme's offline plugin looks for. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.src = new URL(url, location.href).href;
      this.ready = new Promise((done) => { script.onload = done; });
      frame.contentDocument.body.append(script);
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
