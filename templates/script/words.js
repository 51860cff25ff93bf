// The words of the script. Each is put in when the site is made, from words/en.json.
var W = {
  unknown: '{{t "unknown"}}', ago: '{{t "js.ago"}}', copy: '{{t "js.copy"}}', copied: '{{t "js.copied"}}',
  stopped: '{{t "js.stopped"}}', late: '{{t "js.late"}}', was: '{{t "js.was"}}', oldtitle: '{{t "js.oldtitle"}}',
  whole: '{{t "js.whole"}}', clock: '{{t "js.clock"}}', zone: '{{t "js.zone"}}', matched: '{{t "js.hidden"}}', found: '{{t "js.found"}}', foundhere: '{{t "js.found.here"}}',
  nowfree: '{{t "js.free"}}',
  saved: '{{t "js.saved"}}', light: '{{t "js.light"}}', dark: '{{t "js.dark"}}', auto: '{{t "js.auto"}}',
  pause: '{{t "js.pause"}}', resume: '{{t "js.resume"}}', comfort: '{{t "js.comfort"}}', dense: '{{t "js.dense"}}', rows: '{{t "js.rows"}}', bookedby: '{{t "js.bookedby"}}', keys: '{{t "js.keys"}}', nokeys: '{{t "js.nokeys"}}', help: '{{t "js.help"}}',
  sec: '{{t "unit.s"}}', min: '{{t "unit.min"}}', hour: '{{t "unit.h"}}', day: '{{t "unit.d"}}',
  states: {
    free: '{{t "free"}}', booked: '{{t "booked"}}', "in-use": '{{t "in-use"}}', busy: '{{t "busy"}}', contested: '{{t "contested"}}',
    stuck: '{{t "stuck"}}', lost: '{{t "lost"}}', maintenance: '{{t "maintenance"}}', unknown: '{{t "unknown"}}'
  }
};
