import react from "@vitejs/plugin-react";
import { type Plugin, defineConfig } from "vite";

const FONT = /@font-face\s*\{[^}]*\}/g;
const IMAGE = /url\((["'])\.\/assets\/[^)]*\)/g;

/** Leave out the fonts and background images of the component library: pages use fonts of the system. */
function withoutAssets(): Plugin {
  return {
    name: "without-assets",
    enforce: "pre",
    transform(code, id) {
      if (!id.endsWith("/dist/styles/base.css")) {
        return null;
      }
      return code.replace(FONT, "").replace(IMAGE, "none");
    },
  };
}

// No file is inlined as a data URL: the Content-Security-Policy allows files of the server only.
export default defineConfig({
  base: "/static/",
  plugins: [withoutAssets(), react()],
  build: {
    outDir: "../static",
    emptyOutDir: true,
    assetsDir: "",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
});
