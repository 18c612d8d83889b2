// Part of the program on the stand-in: the machine it plays, and failing where objects of Metal's
// are left at its end. No buffer of this machine holds the pocket's weights.
#include "tests/metal/fake/fake.h"

namespace {

[[maybe_unused]] const bool prepared = [] {
  lily::fake_metal::reset({.max_buffer_bytes = 14 << 20});
  lily::fake_metal::check_objects_at_exit();
  return true;
}();

}  // namespace
