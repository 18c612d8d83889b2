// Selectors, classes, pools, counting; and the entry points that host code links to.
#include "tests/metal/fake/runtime.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "tests/metal/fake/fake.h"
#include "tests/metal/fake/machine.h"

namespace lily::fake_metal {
namespace {

// Never destroyed: objects may go after static ones have.
struct Registry {
  std::mutex mutex;
  std::set<std::string> selectors;
  std::map<std::string, long> live;
  bool collecting = false;
  std::vector<std::string> misuses;
};
Registry& registry() {
  static auto* const r = new Registry;
  return *r;
}

thread_local std::vector<std::vector<Object*>> pools;

void count(const char* kind, long change) {
  const std::lock_guard lock(registry().mutex);
  registry().live[kind] += change;
}

std::map<std::string, Class*, std::less<>>& classes() {
  static auto* const all = new std::map<std::string, Class*, std::less<>>{
      {"NSString",
       new Class("NSString", Methods().add("stringWithUTF8String:",
                                           [](Object*, Selector, const char* text) -> Object* {
                                             return autoreleased(new String(text));
                                           }))},
      {"NSProcessInfo", new Class("NSProcessInfo", process_methods())},
      {"MTLCompileOptions", new Class("MTLCompileOptions", compile_options_factory())},
      {"MTLResidencySetDescriptor",
       new Class("MTLResidencySetDescriptor", residency_descriptor_factory())}};
  return *all;
}

}  // namespace

Method Methods::find(Selector selector) const {
  const auto found = table_.find(selector);
  return found == table_.end() ? nullptr : found->second;
}

Methods& Methods::put(const char* selector, Method method) {
  const std::lock_guard lock(registry().mutex);
  table_[registry().selectors.insert(selector).first->c_str()] = method;
  return *this;
}

Object::Object(const char* kind) : kind_(kind) {
  if (std::strcmp(kind, "class") != 0) count(kind, 1);
}

Object::~Object() {
  if (std::strcmp(kind_, "class") != 0) count(kind_, -1);
}

Class::Class(const char*, Methods methods) : Object("class"), methods_(std::move(methods)) {}

void autorelease(Object* object) {
  if (!pools.empty()) pools.back().push_back(object);
}

void misuse(const std::string& what) {
  const std::lock_guard lock(registry().mutex);
  if (registry().collecting) {
    registry().misuses.push_back(what);
    return;
  }
  std::fprintf(stderr, "fake Metal: %s\n", what.c_str());
  std::abort();
}

void collect_misuse() {
  const std::lock_guard lock(registry().mutex);
  registry().collecting = true;
}

std::vector<std::string> take_misuse() {
  const std::lock_guard lock(registry().mutex);
  return std::exchange(registry().misuses, {});
}

long live_objects() {
  const std::lock_guard lock(registry().mutex);
  long all = 0;
  for (const auto& [kind, n] : registry().live) all += n;
  return all;
}

std::string live_report() {
  const std::lock_guard lock(registry().mutex);
  std::string report;
  for (const auto& [kind, n] : registry().live) {
    if (n == 0) continue;
    report.append(report.empty() ? "" : ", ").append(std::to_string(n)).append(" ").append(kind);
  }
  return report;
}

void check_objects_at_exit() {
  std::atexit([] {
    if (live_objects() == 0) return;
    std::fprintf(stderr, "fake Metal: left alive: %s\n", live_report().c_str());
    std::_Exit(99);
  });
}

const Methods& String::methods() const {
  static const Methods table =
      Methods().add("UTF8String", [](String* self, Selector) { return self->text.c_str(); });
  return table;
}

const Methods& ErrorObject::methods() const {
  static const Methods table =
      Methods()
          .add("localizedDescription",
               [](ErrorObject* self, Selector) -> Object* {
                 return autoreleased(new String(self->text));
               })
          .add("code", [](ErrorObject* self, Selector) { return self->code; });
  return table;
}

void set_error(Object** error, const std::string& text) {
  if (error != nullptr) *error = autoreleased(new ErrorObject(1, text));
}

extern "C" {

void* sel_registerName(const char* name) {
  const std::lock_guard lock(registry().mutex);
  return const_cast<char*>(registry().selectors.insert(name).first->c_str());
}

void* objc_getClass(const char* name) {
  const auto found = classes().find(name);
  return found == classes().end() ? nullptr : found->second;
}

void objc_retain(void* object) {
  static_cast<Object*>(object)->retain();
}

void objc_release(void* object) {
  static_cast<Object*>(object)->release();
}

void* objc_autoreleasePoolPush() {
  pools.emplace_back();
  return reinterpret_cast<void*>(pools.size());
}

void objc_autoreleasePoolPop(void* pool) {
  if (reinterpret_cast<std::size_t>(pool) != pools.size())
    misuse("a pool ends that is not the innermost");
  const auto kept = std::move(pools.back());
  pools.pop_back();
  for (Object* object : kept) object->release();
}

// What objc_msgSend jumps to.
Method lily_fake_find_method(Object* self, const char* selector) {
  if (const Method method = self->methods().find(selector)) return method;
  std::fprintf(stderr, "fake Metal: %s does not answer to '%s'\n", self->kind(), selector);
  std::abort();
}

}  // extern "C"

}  // namespace lily::fake_metal
