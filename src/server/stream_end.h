// How a stream ends: what it says when it cannot go on, and the end of OpenAI's chunks.
#pragma once

#include "server/api_error.h"
#include "server/event_stream.h"
#include "server/run_answer.h"
#include "server/service.h"

namespace lily::server {

// A stopped answer is told apart: the server is going, or somebody stopped it.
inline ApiError stream_error(const Service& service, const Error& error) {
  if (error.code == ErrorCode::kCancelled && service.stopping) {
    return {503, "server_stopping", "", "the server is stopping; the answer was cut off"};
  }
  return api_error(error);
}

// A stream of chunks from its first to "[DONE]". A writer is an AnswerListener with begin() and
// finish().
template <typename Writer>
void stream_chunks(const Service& service, HttpExchange& exchange, Answer& answer,
                   EventStream& stream, Writer& writer) {
  stream.begin();
  writer.begin();
  const auto end = run_answer(exchange, answer, writer, [&] { return stream.keep_alive(); });
  if (!end) {
    stream.send(error_body(stream_error(service, end.error()), Dialect::kOpenAi));
    stream.send("[DONE]");
  } else if (*end == RunEnd::kDone) {
    writer.finish();
  }
  stream.end();
}

}  // namespace lily::server
