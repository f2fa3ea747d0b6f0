// A line of the last minute in a small SVG. Only attributes change, so nothing moves and no style is inline.

const POINTS = 60;

/** Draws `values`, the newest last, against their own largest. */
export function draw(svg, values) {
  const line = svg.querySelector("polyline");
  const { width, height } = svg.viewBox.baseVal;
  const shown = values.slice(-POINTS);
  const top = Math.max(...shown, 1);
  const points = shown.map((value, at) => {
    const x = width - ((shown.length - 1 - at) * width) / (POINTS - 1);
    const y = height - 1 - (value / top) * (height - 3);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  line.setAttribute("points", points.join(" "));
}
