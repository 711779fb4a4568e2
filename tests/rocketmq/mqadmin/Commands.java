import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs mqadmin's commands in one process: a line in, its words by tabs; the size of what was printed and the text out. */
public class Commands {
  public static void main(String[] ignored) throws Exception {
    PrintStream out = System.out;
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line; (line = in.readLine()) != null; ) {
      ByteArrayOutputStream printed = new ByteArrayOutputStream();
      PrintStream to = new PrintStream(printed, true, "UTF-8");
      System.setOut(to);
      System.setErr(to);
      try {
        MQAdminStartup.main0(line.split("\t"), null);
      } catch (Throwable error) {
        error.printStackTrace(to);
      }
      to.flush();
      out.println(printed.size());
      printed.writeTo(out);
      out.flush();
    }
    System.exit(0);
  }
}
