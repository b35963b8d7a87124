#include "core/caught.hpp"

#include <fmt/format.h>

#include <new>

#include "core/wait.hpp"

namespace rota::internal {

Error Caught::as_error(std::string_view task) const {
  return {code, fmt::format("{}: {}", task, message), cause};
}

Error Caught::as_error_of(std::string_view path, std::string_view task) const {
  return message.find(path) == std::string::npos ? as_error(task) : Error(code, message, cause);
}

Caught caught() {
  if (is_stopped(std::current_exception())) throw;
  return caught(std::current_exception());
}

Caught caught(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return {.code = e.code(),
            .message = e.what(),
            .is_programs = dynamic_cast<const ProgramError*>(&e) != nullptr,
            .cause = e.cause()};
  } catch (const std::bad_alloc&) {
    return {.message = "there is not enough memory", .is_out_of_memory = true};
  } catch (const std::exception& e) {
    return {.message = e.what(), .cause = error};
  } catch (const Stopped&) {
    return {.message = "it was interrupted"};
  } catch (...) {
    return {.message = "an exception of unknown type", .cause = error};
  }
}

}  // namespace rota::internal
