// @ts-check
/** A cron expression in words, for those that people write. */
import { t } from "../../texts/index.js";

const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/** @param {string} every minute, hour, day, month and weekday; what has no words here stays as it is */
export function cronText(every) {
  const [minute, hour, day, month, weekday] = every.trim().toLowerCase().split(/\s+/);
  if (month !== "*") return every;
  if (`${hour} ${day} ${weekday}` === "* * *") return hourly(minute) ?? every;
  const times = timesOf(minute, hour);
  return (times && onDays(day, weekday, times)) || every;
}

/** @param {string} day @param {string} weekday @param {string} times */
function onDays(day, weekday, times) {
  if (day !== "*") return weekday === "*" && /^\d+$/.test(day) ? t("cron.monthly", { day, times }) : null;
  return weekday === "*" ? t("cron.daily", { times }) : weekly(weekday, times);
}

/** @param {string} minute */
function hourly(minute) {
  if (minute === "*") return t("cron.minute");
  const step = /^\*\/(\d+)$/.exec(minute)?.[1];
  if (step) return 60 % Number(step) ? null : t("cron.minutes", { n: step });
  return /^\d+$/.test(minute) ? t("cron.hourly", { n: minute.padStart(2, "0") }) : null;
}

/** The times of a day, as `09:00, 17:00`; empty for others. @param {string} minute @param {string} hour */
function timesOf(minute, hour) {
  if (!/^\d+$/.test(minute) || !/^\d+(,\d+)*$/.test(hour)) return "";
  return hour.split(",").map((each) => `${each.padStart(2, "0")}:${minute.padStart(2, "0")}`).join(", ");
}

/** @param {string} weekday @param {string} times */
function weekly(weekday, times) {
  const [from, to] = weekday.split("-").map(dayName);
  if (weekday.includes("-") && !weekday.includes(",")) return from && to ? t("cron.range", { from, to, times }) : null;
  const names = weekday.split(",").map(dayName);
  return names.every(Boolean) ? t("cron.weekly", { days: names.join(t("cron.and")), times }) : null;
}

/** The name of a weekday, which is a number or its first letters; empty for another text. @param {string} day */
function dayName(day) {
  const place = /^[0-7]$/.test(day) ? Number(day) % 7 : DAYS.indexOf(day);
  if (place < 0) return "";
  const date = new Date(Date.UTC(2023, 0, 1 + place)); // the first was a Sunday
  return date.toLocaleDateString(document.documentElement.lang, { weekday: "long", timeZone: "UTC" });
}
