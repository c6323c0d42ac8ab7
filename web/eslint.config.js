/** The rules for the web page's modules. */
import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["**/vendor/**"] },
  js.configs.recommended,
  {
    files: ["**/*.js"],
    languageOptions: { ecmaVersion: 2025, sourceType: "module", globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      complexity: ["error", 12],
      curly: ["error", "multi-line"],
      eqeqeq: "error",
      "max-len": ["error", { code: 120, ignorePattern: "^import |^  \"" }],
      "max-lines": ["error", 300],
      "max-lines-per-function": ["error", 60],
      "no-console": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-restricted-properties": [
        "error",
        { property: "dangerouslySetInnerHTML", message: "Only components/answer.js sets HTML, which the service sanitised." },
        { property: "innerHTML", message: "Only components/answer.js sets HTML, which the service sanitised." },
        { property: "outerHTML", message: "Show text." },
        { property: "insertAdjacentHTML", message: "Show text." },
      ],
      "no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },
  { files: ["**/components/answer.js"], rules: { "no-restricted-properties": "off" } },
  { files: ["**/texts/*.js"], rules: { "max-lines": "off" } },
];
