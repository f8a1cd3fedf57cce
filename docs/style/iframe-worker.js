/* Search from the disk: browsers start no worker for a file, so its script runs in a hidden frame instead.
   The theme's own way to do so would be fetched from the network. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      this.frame = frame;
      const page = frame.contentDocument;
      const hand = "postMessage = data => parent.postMessage(data, '*'); importScripts = () => {};";
      page.open();
      page.write(`<script>${hand}<\/script><script src="${script}"><\/script>`);
      page.close();
      this.ready = new Promise(done => { frame.onload = done; });
      addEventListener("message", event => {
        if (event.source === frame.contentWindow) {
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
        }
      });
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
