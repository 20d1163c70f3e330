// Draws the page: numbers first, then what needs the examples, which are unpacked meanwhile.
const report = (globalThis.report ??= {});

report.drawHeat();
report.drawMeasures();
report.drawCurves();
try {
  await report.unpack();
} catch (error) {
  document.getElementById("examples").textContent = `The examples cannot be unpacked by this browser (${error.message}). It needs DecompressionStream: Chrome 80, Firefox 113, Safari 16.4.`;
}
report.drawCompare();
report.drawExamples();
performance.mark("ready");
document.documentElement.dataset.ready = "true";
