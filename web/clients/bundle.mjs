// bundle.mjs SOURCE TARGET: a page's script with the packages of this folder in one file.
import { build } from "esbuild";

const [source, target] = process.argv.slice(2);
const packages = [new URL("../node_modules", import.meta.url).pathname];
await build({ entryPoints: [source], outfile: target, bundle: true, jsx: "automatic", nodePaths: packages });
